package main_test

import (
	"flag"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/drivertest/model"
	"github.com/keyturn/keyturn/store/memstore"
)

var keys = []string{"a", "b", "c"}

// programs draws them. A list of lists gets longer than a list would, and shrinks as well.
func programs() *rapid.Generator[[]model.Step] {
	step := rapid.Custom(func(t *rapid.T) model.Step {
		return model.Random(func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "choice") })
	})
	parts := rapid.SliceOfN(rapid.SliceOfN(step, 0, 20), 1, 12)
	return rapid.Map(parts, func(parts [][]model.Step) []model.Step { return slices.Concat(parts...) })
}

// TestMemstoreDoesWhatTheModelDoes runs programs in a bubble: time stands still while a step runs.
func TestMemstoreDoesWhatTheModelDoes(t *testing.T) {
	rounds := 10 // as many times the programs that rapid is told to check: they take a millisecond each
	if testing.Short() {
		rounds = 1
	}
	for range rounds {
		rapid.Check(t, func(rt *rapid.T) {
			program := programs().Draw(rt, "program")
			var err error
			synctest.Test(t, func(*testing.T) {
				mem := memstore.New()
				rig := model.Rig{
					Stores: []driver.Store{mem, mem.Peer()}, Keys: keys,
					Sleep: time.Sleep, Settle: synctest.Wait, Exact: true,
				}
				err = rig.Run(program)
			})
			if err != nil {
				rt.Fatal(err)
			}
		})
	}
}

// How often those look by themselves who wait, times three: where leases run out, which nobody tells them,
// often, and otherwise hardly ever, or what they were not told would not be missed.
const (
	often  = 1500 * time.Millisecond
	seldom = 2 * time.Minute
)

// looking runs a test with waiters that look often, and beside it with others that look seldom. The contract of
// each store has the same few programs each time, so the short run has none of these.
func looking(t *testing.T, test func(t *testing.T, looks time.Duration)) {
	for name, looks := range map[string]time.Duration{"often": often, "seldom": seldom} {
		t.Run("looking "+name, func(t *testing.T) {
			t.Parallel()
			test(t, looks)
		})
	}
}

// prefixes counts programs.
var prefixes atomic.Int64

// manyPrograms runs programs on a real server, as many as there is time for. open opens the store of a process,
// which has the keys of that prefix for itself.
func manyPrograms(t *testing.T, rig model.Rig, open func(nr int, prefix string) (driver.Store, error)) {
	t.Helper()
	rig.Keys, rig.Sleep, rig.Settle = keys, time.Sleep, func() {}
	budget := 8 * time.Second
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() != checks.DefValue {
		budget = time.Hour // who asks for more gets it
	}
	run := func(program []model.Step) error {
		rig.Stores = nil
		prefix := fmt.Sprint("p", prefixes.Add(1))
		for nr := range 2 {
			store, err := open(nr, prefix)
			must(t, err)
			defer store.Close()
			rig.Stores = append(rig.Stores, store)
		}
		rig.TTLs = rig.Stores[0].Describe().TTLs
		return rig.Run(program)
	}
	began, ran, broken := time.Now(), 0, false
	rapid.Check(t, func(rt *rapid.T) {
		program := programs().Draw(rt, "program")
		if !broken && time.Since(began) > budget {
			return // the rest is for a longer run
		}
		ran++
		if err := run(program); err != nil {
			broken = true // making it shorter takes its time
			rt.Fatal(err)
		}
	})
	t.Logf("%d programs", ran)
}
