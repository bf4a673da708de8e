package proof

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Rig is what programs run on.
type Rig struct {
	// Stores are processes with one backend, whose keys nobody else uses. They can do
	// everything in [driver.Description].
	Stores []driver.Store
	Keys   []string // those of the programs
	// Sleep lets time go by.
	Sleep func(time.Duration)
	// Settle returns when nothing more happens by itself. It may return too early
	// if there is Patience: what should be is waited for that long.
	Settle   func()
	Patience time.Duration
	// Exact: a clock that stands still while a step runs, so times are compared,
	// and leases can run out on their own (Pass). Else only those run out that are
	// made to (Expire).
	Exact bool
	// Prompt: who waits looks again so seldom that it has to be told of what it waits
	// for. Steps are skipped that it would not be told of: leases that run out, which
	// nobody can, and records, of which only the next in line is.
	Prompt         bool
	Blurred, Apart bool // see [Model]
}

// short is what a lease gets that is to end, and a record.
const short = 40 * time.Millisecond

// run is a program on its way.
type run struct {
	Rig
	ctx     context.Context
	models  []*Model // what the backend may know
	asked   []*acquisition
	highest map[string]uint64 // token granted so far, by key
	log     []string
}

// Run runs a program. The error says how the stores differ from every model that
// there can be, and at which step.
func (rig Rig) Run(program []Step) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	m := NewModel()
	m.Blurred, m.Apart = rig.Blurred, rig.Apart
	r := &run{Rig: rig, ctx: ctx, models: []*Model{m}, highest: map[string]uint64{}}
	defer func() {
		cancel()
		for _, a := range r.asked {
			<-a.done
		}
	}()
	for i, s := range program {
		if r.Exact {
			// So that no two steps, and nothing that follows from them, have to
			// happen at the same moment, in an order that nobody has promised.
			r.pass(time.Millisecond)
		}
		said, ok := r.step(s)
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

// String is what happened so far.
func (r *run) String() string {
	s := ""
	for _, line := range r.log {
		s += "  " + line + "\n"
	}
	return s
}

// do has the models carry out what the store was asked to.
func (r *run) do(op func(*Model)) {
	var all []*Model
	for _, m := range r.models {
		all = append(all, m.Do(op)...)
	}
	r.models = distinct(all)
}

// pass lets time go by, on both sides.
func (r *run) pass(d time.Duration) {
	r.Sleep(d)
	var all []*Model
	for _, m := range r.models {
		all = append(all, m.Pass(d)...)
	}
	r.models = distinct(all)
}

// agree drops the models that the stores disagree with, and fails if none is
// left.
func (r *run) agree(said taken) error {
	for deadline := time.Now().Add(r.Patience); ; r.Sleep(2 * time.Millisecond) {
		r.Settle()
		seen, err := r.look()
		if err != nil {
			return err
		}
		var left []*Model
		for _, m := range r.models {
			e := r.compare(m, said, seen)
			if e == nil {
				e = r.rising(m)
			}
			if e == nil {
				left = append(left, m)
			}
			err = cmp.Or(e, err)
		}
		if len(left) > 0 {
			r.models = left
			r.count()
			return nil
		}
		if !time.Now().Before(deadline) {
			return err
		}
	}
}

// each reports whether all models say so.
func (r *run) each(is func(*Model) bool) bool {
	return !slices.ContainsFunc(r.models, func(m *Model) bool { return !is(m) })
}

// choose picks the one that a step is about, nil: there is none.
func (r *run) choose(who int, among func(*acquisition) bool) *acquisition {
	of := slices.DeleteFunc(slices.Clone(r.asked), func(a *acquisition) bool { return !among(a) })
	if len(of) == 0 {
		return nil
	}
	return of[len(of)-1-who%len(of)]
}

func (r *run) granted(a *acquisition) bool { return a.kind == Granted }

// whole: a has what it was granted.
func (r *run) whole(a *acquisition) bool {
	return r.granted(a) && r.each(func(m *Model) bool { return m.whole(a.owner) })
}

func (r *run) waits(a *acquisition) bool { return a.kind == Waits }

// heard reports whether all who wait for one of claims learn in time that it is
// free.
func (r *run) heard(claims []driver.Claim, executed bool) bool {
	return !r.Prompt || r.each(func(m *Model) bool {
		return !slices.ContainsFunc(claims, func(c driver.Claim) bool {
			return slices.ContainsFunc(m.at(c.Key).queue, func(t ticket) bool { return !executed || !m.requests[t.owner].once })
		})
	})
}

// free reports whether no set that waits has a part on key: what becomes of it
// when that is taken away is not laid down.
func (r *run) free(key string) bool {
	return r.each(func(m *Model) bool {
		return !slices.ContainsFunc(m.at(key).holders, func(l lease) bool { return l.partial })
	})
}
