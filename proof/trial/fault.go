package trial

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/proof/history"
	"github.com/keyturn/keyturn/proof/work"
)

// fault is something that can go wrong. Faults of one lane strike one after the other; those of
// different lanes come together as chance has it.
type fault struct {
	name string
	lane string
	// loses: the store may forget leases and records. Then the guarantees admit that two hold a key.
	loses bool
	// wrong: it is a setting that the docs warn of, and not among all faults.
	wrong bool
	// strike does the harm, and returns when it is over.
	strike func(s *stroke)
}

// The lanes.
const (
	processes = "processes"
	servers   = "servers"
	network   = "network"
)

// stroke is one fault that strikes.
type stroke struct {
	ctx   context.Context // ends when the history does
	rand  *rand.Rand
	t     *redistest.Run
	part  int    // which part of the store it hits; -1: all
	place string // what it hit
}

// lasts waits for a time between both, or until the history ends.
func (s *stroke) lasts(least, most time.Duration) {
	pause(s.ctx, least+time.Duration(s.rand.Int64N(int64(most-least)+1)))
}

// Struck is a fault that has struck.
type Struck struct {
	Fault, Place string
	history.Span
	Loses bool
	Part  int
	lane  string
}

// nemesis has faults strike.
type nemesis struct {
	faults []fault
	seed   uint64
	t      *redistest.Run
	log    func(format string, args ...any)

	mu     sync.Mutex
	struck []Struck
	errs   []error
}

// calm is the longest pause between two faults of a lane.
const calm = time.Second

// work goes on until ctx ends. In each lane all faults strike in an order that the seed gives, then
// all again in another one.
func (n *nemesis) work(ctx context.Context) {
	var all sync.WaitGroup
	for i, lane := range []string{processes, servers, network} {
		var faults []fault
		for _, f := range n.faults {
			if f.lane == lane {
				faults = append(faults, f)
			}
		}
		if len(faults) == 0 {
			continue
		}
		rng := rand.New(rand.NewPCG(n.seed, uint64(i)))
		all.Go(func() {
			for round := []fault(nil); ; {
				if len(round) == 0 {
					round = slices.Clone(faults)
					rng.Shuffle(len(round), func(i, j int) { round[i], round[j] = round[j], round[i] })
				}
				s := &stroke{ctx: ctx, rand: rng, t: n.t, part: -1}
				s.lasts(calm/5, calm)
				if ctx.Err() != nil || !n.hit(round[0], s) {
					return
				}
				round = round[1:]
			}
		})
	}
	all.Wait()
}

// hit reports whether the fault could strike.
func (n *nemesis) hit(f fault, s *stroke) bool {
	from := work.Monotonic()
	err := n.t.Catch(func() { f.strike(s) })
	n.mu.Lock()
	defer n.mu.Unlock()
	to := work.Monotonic()
	n.struck = append(n.struck, Struck{f.name, s.place, history.Span{From: from, To: to}, f.loses, s.part, f.lane})
	n.log("%-10s %-12s %5.1f s", f.name, s.place, time.Duration(to-from).Seconds())
	if err != nil {
		n.errs = append(n.errs, fmt.Errorf("%s of %s: %w", f.name, s.place, err))
	}
	return err == nil
}

// on is a fault of a topology's only server.
func on(name string, loses bool, strike func(s *stroke)) fault {
	return fault{name: name, lane: servers, loses: loses, strike: func(s *stroke) {
		s.place = "server"
		strike(s)
	}}
}

// server is one that faults of every kind can strike.
type server interface {
	Pause()
	Resume()
	Kill()
	Restart(t testing.TB)
}

// outages are the faults of a topology's only server, of whatever kind. erase deletes its data, and may leave
// it down.
func outages(t *redistest.Run, ttl time.Duration, it server, erase func()) []fault {
	crash := func(s *stroke) {
		it.Kill()
		s.lasts(0, ttl)
		it.Restart(t)
	}
	return []fault{
		on("freeze", false, func(s *stroke) {
			it.Pause()
			defer it.Resume()
			s.lasts(ttl/5, 2*ttl)
		}),
		on("crash", false, crash),
		on("empty", true, func(s *stroke) {
			erase()
			crash(s)
		}),
	}
}

// groups are short for several faults.
var groups = map[string][]string{
	"all":       nil,
	processes:   {"kill", "stop"},
	network:     {"cut", "silence", "replies", "delay", "fade", "late", "duplicate"},
	"single":    {"freeze", "crash", "empty", "forget", "flush", "memory", "clock", "disk"},
	"postgres":  {"freeze", "crash", "empty", "forget", "terminate"},
	"etcd":      {"freeze", "crash", "empty", "compact"},
	"zookeeper": {"freeze", "crash", "empty"},
	"sentinel":  {"crash", "freeze", "isolate", "split", "behind", "failover", "flush"},
	"cluster":   {"crash", "freeze", "bus", "failover", "migrate", "flush"},
	"redlock":   {"freeze", "empty", "amnesia", "flush", "clock"},
	"alone":     {"kill", "freeze", "crash", "flush", "terminate", "memory", "disk", "cut", "silence", "replies", "delay", "fade", "late", "duplicate", "migrate"},
}

// Faults returns the names of all faults, in alphabetical order.
func Faults() []string {
	names := map[string]bool{}
	for _, group := range groups {
		for _, name := range group {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// choose returns those of the faults that names mean.
func choose(all []fault, names []string) ([]fault, error) {
	want := map[string]bool{}
	for _, name := range names {
		if group, ok := groups[name]; ok {
			for _, f := range all {
				want[f.name] = want[f.name] || name == "all" && !f.wrong || slices.Contains(group, f.name)
			}
			continue
		}
		if !slices.ContainsFunc(all, func(f fault) bool { return f.name == name }) {
			var known []string
			for _, f := range all {
				known = append(known, f.name)
			}
			return nil, fmt.Errorf("no fault %q here; there are %s", name, strings.Join(known, ", "))
		}
		want[name] = true
	}
	return slices.DeleteFunc(slices.Clone(all), func(f fault) bool { return !want[f.name] }), nil
}
