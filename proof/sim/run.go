package sim

import (
	"cmp"
	crypto "crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	random "math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/proof/history"
	"github.com/keyturn/keyturn/proof/work"
)

// Run says which history to make. Its zero values are those of a usual history.
type Run struct {
	Seed  uint64
	Lasts time.Duration // of the bubble's time
	Store string        // one of the constants; "": Redisstore
	TTL   time.Duration
	Only  []int // the numbers of the faults that strike; nil: all
	// Wrap makes a wrong store of a right one, for tests of the simulator; nil: it stays right.
	Wrap func(driver.Store) driver.Store

	chance
	*backend
	losing    bool // faults may strike that lose data
	confirmed bool // replicas confirm each grant (redisstore.WithReplicas)
}

const (
	fleetSize = 3                    // processes at a time
	rest      = 5 * time.Millisecond // between two operations of a goroutine, on average
)

// History is what came of a run.
type History struct {
	Run
	Events []history.Event
	Faults []*Fault
	history.Count
	history.Effects
	met map[string]*atomic.Int64 // how many packets a fault has met (network.met)
	// Wrong is what is wrong with it; nil: nothing.
	Wrong error
}

func (r *Run) fill() {
	r.Lasts, r.Store = cmp.Or(r.Lasts, 20*time.Second), cmp.Or(r.Store, Redisstore)
	r.backend = backends[r.Store]
	r.chance = chance(r.Seed).of(0)
	r.TTL = cmp.Or(r.TTL, r.of(9).between(400*time.Millisecond, 2*time.Second).Round(10*time.Millisecond))
	if r.wholeSeconds {
		r.TTL = max(r.TTL.Round(time.Second), 2*time.Second)
	}
	// In two of three histories no fault loses leases, so they need no exceptions. In one of these the
	// replicas confirm each grant, and a failover loses nothing either.
	r.losing = r.Seed%3 == 1 && !r.keepsData
	r.confirmed = r.Seed%3 == 0 && r.replicas
}

// kinds are the faults that may strike.
func (r *Run) kinds() []kind {
	return slices.DeleteFunc(slices.Clone(r.backend.faults), func(k kind) bool {
		return k.loses && !r.losing && (k.name != failover || !r.confirmed)
	})
}

// warm are the stores that this program has made a history of.
var warm = map[string]bool{}

// Make makes a history, and checks it.
func Make(t *testing.T, r Run) *History {
	r.fill()
	if !warm[r.Store] {
		// What a program makes only once, such as a cache of types, makes its first history another one.
		warm[r.Store] = true
		Make(t, Run{Store: r.Store, Seed: 1, Lasts: 5 * time.Second})
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	runtime.MemProfileRate = 0 // its samples would draw from the bubble's random numbers
	// What pools of the bubble before have must not get into this one.
	runtime.GC()
	runtime.GC()
	// The random part of owners, which their stores put in order.
	defer func(was io.Reader) { crypto.Reader = was }(crypto.Reader)
	crypto.Reader = random.NewChaCha8([32]byte{byte(r.Seed)})
	if r.outside != nil {
		defer r.outside(t)()
	}
	f := &fleet{Run: r, registers: &work.Registers{}, alive: make([]*process, fleetSize)}
	var left []string
	var faults []*Fault
	synctest.Test(t, func(t *testing.T) {
		left, faults = f.live(t)
	})
	h := &History{Run: r, Events: f.events, Faults: faults, Count: history.CountOf(f.events), met: f.net.met}
	h.Wrong = f.check(h, left)
	return h
}

// Fingerprint is the same for two histories in which the same happened at the same moments. Only the
// owners' names differ from one program to another.
func (h *History) Fingerprint() string {
	sum := sha256.New()
	names := map[string]int{}
	name := func(owner string) int {
		if names[owner] == 0 {
			names[owner] = len(names) + 1
		}
		return names[owner]
	}
	for _, e := range h.Events {
		var from []int
		for _, o := range e.Owners {
			from = append(from, name(o))
		}
		fmt.Fprintln(sum, e.Process, e.Nr, e.What, e.At, e.Claims, e.Key, e.Value, name(e.Owner), from, e.Token, e.Until, e.TTL)
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:8])
}

// live is what happens in the bubble.
func (f *fleet) live(t *testing.T) (left []string, faults []*Fault) {
	f.net = newNetwork(f.chance.of(8))
	if err := f.boot(f); err != nil {
		t.Fatal(err)
	}
	for place := range f.alive {
		if err := f.start(place); err != nil {
			t.Fatal(err)
		}
	}
	faults = plan(f.chance, f.kinds(), f.Lasts, f.TTL)
	if f.Only != nil {
		faults = slices.DeleteFunc(faults, func(x *Fault) bool { return !slices.Contains(f.Only, x.Nr) })
	}
	var all sync.WaitGroup
	for lane := range lanes {
		all.Go(func() {
			for _, x := range faults {
				if x.kind.lane == lane {
					time.Sleep(time.Until(began.Add(x.At)))
					x.From = now()
					x.kind.strike(f, x)
					x.To = now()
				}
			}
		})
	}
	time.Sleep(f.Lasts)
	all.Wait()
	time.Sleep(2 * time.Second) // for as long as processes may need to notice that all is well
	f.end()
	time.Sleep(2*f.TTL + 5*time.Second) // until leases and waiters have run out
	return f.shutDown(), faults
}
