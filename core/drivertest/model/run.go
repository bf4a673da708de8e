package model

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Rig is the backend that programs run on.
type Rig struct {
	// Stores are processes with one backend, whose keys nobody else uses. They have every
	// capability of [driver.Description].
	Stores []driver.Store
	Keys   []string // three, in order; nobody else uses them
	// Sleep lets time go by.
	Sleep func(time.Duration)
	// Settle returns when nothing more happens by itself. With Patience it may return too
	// early: an expected result is waited for that long.
	Settle   func()
	Patience time.Duration
	// Exact: the clock stands still while a step runs. Times are compared, and leases can run
	// out on their own. Otherwise TTLs are so long that leases run out only in steps that make
	// them.
	Exact bool
	// Prompt: waiters poll so seldom that a message has to tell them of their turn. Steps
	// without a message are skipped: leases that run out, and records, of which only the next
	// waiter is told.
	Prompt bool
	// TTLs are those that the stores can keep. The zero value means all TTLs.
	TTLs driver.TTLs
	Latitude
}

// short is the TTL of a lease that should end.
func (rig Rig) short() time.Duration { return rig.TTLs.Nearest(short) }

// short is the TTL of a lease that should end, and the retention of such a record.
const short = 40 * time.Millisecond

// run is a program under way.
type run struct {
	Rig
	ctx     context.Context
	models  []*backend // the possible states of the backend
	asked   []*acquisition
	highest map[string]uint64 // the highest token granted so far, by key
	log     []string
	ears    ears
}

// Run runs a program. The error says how the stores differ from every possible model, and at
// which step.
func (rig Rig) Run(program []Step) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	r := &run{Rig: rig, ctx: ctx, models: []*backend{newBackend(rig.Latitude)}, highest: map[string]uint64{}}
	r.ears.heard = map[string]bool{}
	r.listen()
	defer func() {
		cancel()
		for _, a := range r.asked {
			<-a.done
		}
	}()
	for i, s := range program {
		if r.Exact {
			// Otherwise two steps, or their consequences, could fall on the same moment, in an
			// order that nobody has promised.
			r.pass(time.Millisecond)
		}
		said, ok := r.step(rig.fit(s))
		if !ok {
			continue
		}
		r.log = append(r.log, fmt.Sprintf("%d. %s", i+1, said))
		if err := r.agree(said); err != nil {
			return fmt.Errorf("%w\nafter\n%s", err, r)
		}
	}
	return nil
}

// lasting is how much longer leases last if the clock goes on while a step runs.
const lasting = 200

// fit makes s a step on the keys of this rig, and on its clock.
func (rig Rig) fit(s Step) Step {
	if s.key != "" {
		s.key = rig.Keys[s.key[0]-'a']
	}
	s.claims = slices.Clone(s.claims)
	for i := range s.claims {
		s.claims[i].Key = rig.Keys[s.claims[i].Key[0]-'a']
	}
	if !rig.Exact {
		s.ttl *= lasting
	}
	if s.op != opPass {
		s.ttl = rig.TTLs.Nearest(s.ttl)
	}
	return s
}

// String describes the steps so far.
func (r *run) String() string {
	s := ""
	for _, line := range r.log {
		s += "  " + line + "\n"
	}
	return s
}

// do makes the models carry out what the store was asked to do.
func (r *run) do(op func(*backend)) {
	var all []*backend
	for _, m := range r.models {
		all = append(all, m.Do(op)...)
	}
	r.models = distinct(all)
}

// pass lets time go by, on both sides.
func (r *run) pass(d time.Duration) {
	r.Sleep(d)
	var all []*backend
	for _, m := range r.models {
		all = append(all, m.Pass(d)...)
	}
	r.models = distinct(all)
}

// agree drops the models that the stores disagree with, and fails if none is left.
func (r *run) agree(said taken) error {
	for deadline := time.Now().Add(r.Patience); ; r.Sleep(2 * time.Millisecond) {
		r.Settle()
		seen, err := r.look()
		if err != nil {
			return err
		}
		var left []*backend
		var errs []error // one for each model
		for _, m := range r.models {
			e := r.compare(m, said, seen)
			if e == nil {
				e = r.rising(m)
			}
			if e == nil {
				left = append(left, m)
			} else {
				errs = append(errs, e)
			}
		}
		if len(left) > 0 {
			r.models = left
			r.count()
			return nil
		}
		if !time.Now().Before(deadline) {
			return errors.Join(errs...)
		}
	}
}

// each reports whether all models say so.
func (r *run) each(is func(*backend) bool) bool {
	return !slices.ContainsFunc(r.models, func(m *backend) bool { return !is(m) })
}

// choose returns the acquisition that a step is about; nil: there is none.
func (r *run) choose(who int, among func(*acquisition) bool) *acquisition {
	of := slices.DeleteFunc(slices.Clone(r.asked), func(a *acquisition) bool { return !among(a) })
	if len(of) == 0 {
		return nil
	}
	return of[len(of)-1-who%len(of)]
}

func (r *run) granted(a *acquisition) bool { return a.kind == granted }

// whole reports whether a still has everything that it was granted.
func (r *run) whole(a *acquisition) bool {
	return r.granted(a) && r.each(func(m *backend) bool { return m.whole(a.owner) })
}

func (r *run) waits(a *acquisition) bool { return a.kind == waits }

// heard reports whether all waiters for one of claims learn in time that it is free.
func (r *run) heard(claims []driver.Claim, executed bool) bool {
	return !r.Prompt || r.each(func(m *backend) bool {
		return !slices.ContainsFunc(claims, func(c driver.Claim) bool {
			return slices.ContainsFunc(m.at(c.Key).queue, func(t ticket) bool { return !executed || !m.requests[t.owner].once })
		})
	})
}

// free reports whether no waiting set holds key as a part. The contract does not say what
// happens if such a part is taken away.
func (r *run) free(key string) bool {
	return r.each(func(m *backend) bool {
		return !slices.ContainsFunc(m.at(key).holders, func(l lease) bool { return l.partial })
	})
}
