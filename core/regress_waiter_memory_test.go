package core_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/store/memstore"
)

// A caller in line took 6.3 KiB besides what its goroutine takes anyway: what the
// acquisition needs before and after the wait was on its stack, which had doubled
// twice for it.
func TestWaiterTakesLessThanFourKiB(t *testing.T) {
	if racing {
		t.Skip("the race detector makes stacks larger")
	}
	const waiters, most = 5000, 4096
	eng := newEngine(t, memstore.New(), core.WithMaxWait(core.Forever), core.WithMaxWaiters(2*waiters))
	ctx := bg
	nothing := noWork
	policy := policy(t, core.WithRule("rule"))

	// The size that stacks begin with follows the average of those that there are. A
	// crowd of small ones keeps it at its least.
	_, disperse := idlers(t, waiters)
	defer disperse()
	alone, end := idlers(t, waiters)
	end()

	for name, wait := range map[string]func() error{
		"Do, options":   func() error { return eng.Do(ctx, "k", nothing, policy, core.WithTTL(time.Minute)) },
		"DoAll, shared": func() error { return eng.DoAll(ctx, []core.Claim{core.Shared("k")}, nothing) },
		"Once": func() error {
			_, err := eng.Once(ctx, "k", func(context.Context) ([]byte, error) { return nil, nil })
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			holder := mustAcquire(t, eng, "k")
			each, gone := takes(t, waiters, func() {
				wantNil(t, wait())
			}, func() bool {
				n := core.Waiting(eng)
				return n == waiters || n == waiters-1 // one may ask the store by now
			})
			mustRelease(t, holder)
			gone()
			if each -= alone; each > most {
				t.Errorf("%d bytes each, besides their goroutines' %d", each, alone)
			}
		})
	}
}

// idlers has n goroutines wait for a channel, until end is called.
func idlers(t *testing.T, n int) (each int, end func()) {
	var begun atomic.Int64
	stop := make(chan struct{})
	each, gone := takes(t, n, func() { begun.Add(1); <-stop }, func() bool { return begun.Load() == int64(n) })
	return each, func() { close(stop); gone() }
}

// takes returns how many bytes of heap and stacks each of n goroutines takes while
// all of them are in f, as there says, and a function that waits for their end.
func takes(t *testing.T, n int, f func(), there func() bool) (each int, gone func()) {
	t.Helper()
	before := inUse()
	var all sync.WaitGroup
	for range n {
		all.Go(f)
	}
	for deadline := time.Now().Add(30 * time.Second); !there(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not all of them wait")
		}
	}
	return (inUse() - before) / n, all.Wait
}

func inUse() int {
	runtime.GC()
	runtime.GC() // what the first one left to sweep
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapInuse + m.StackInuse)
}
