package core_test

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/memstore"
)

func noWork(context.Context) error { return nil }

// benchEngine is over a store without a network, so a benchmark shows what the engine itself costs.
func benchEngine(b *testing.B, opts ...core.EngineOption) *core.Engine {
	b.ReportAllocs()
	return newEngine(b, memstore.New(), opts...)
}

// BenchmarkDo is on a key that nobody else wants.
func BenchmarkDo(b *testing.B) { benchmarkDo(b, benchEngine(b)) }

// BenchmarkLinger is a lease that is taken again and again by the process that kept it.
func BenchmarkLinger(b *testing.B) { benchmarkDo(b, benchEngine(b, core.WithLinger(time.Minute))) }

func benchmarkDo(b *testing.B, eng *core.Engine) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for b.Loop() {
		must(b, eng.Do(ctx, "k", noWork))
	}
}

// BenchmarkHotKey has many goroutines of one process want one key.
func BenchmarkHotKey(b *testing.B) {
	b.SetParallelism(32)
	benchmarkParallel(b, func() string { return "k" })
}

// BenchmarkDoParallel is how the engine scales over processors where nobody waits for
// anybody: run it with -cpu 1,2,4. Each goroutine has a key of its own, so what they
// share is the engine's books.
func BenchmarkDoParallel(b *testing.B) {
	var callers atomic.Int64
	benchmarkParallel(b, func() string { return fmt.Sprint("key ", callers.Add(1)) })
}

func benchmarkParallel(b *testing.B, keyOfOne func() string) {
	eng := benchEngine(b)
	b.RunParallel(func(pb *testing.PB) {
		key := keyOfOne()
		for pb.Next() {
			if err := eng.Do(bg, key, noWork); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// A store may keep a request's context when it has answered, to find out that nobody waits
// for what it still does. So the context is never another request's.
func TestContextOfARequestIsItsOwn(t *testing.T) {
	store := newSpy()
	eng := newEngine(t, store)
	var kept []context.Context
	store.onAcquire = func(ctx context.Context, _ driver.Request) error {
		for i, earlier := range kept {
			check(t, earlier.Err() != nil, "request %d has ended, its context goes on during request %d", i, len(kept))
		}
		kept = append(kept, ctx)
		return nil
	}
	for range 100 {
		mustRelease(t, mustAcquire(t, eng, "k"))
	}
}

// There may be a hundred thousand leases. The allocator has objects of 640 bytes, then of 704, and
// needs 8 of them.
func TestLeaseIsSmall(t *testing.T) {
	check(t, core.LeaseBytes <= 632, "%d bytes", core.LeaseBytes)
}

// A lease that nobody else wants makes little work for the garbage collector, which would
// bound how the engine scales over processors.
func TestDoAllocatesLittle(t *testing.T) {
	if racing {
		t.Skip("the race detector has pools lose what they keep")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for name, tc := range map[string]struct {
		opts []core.CallOption
		most float64
	}{
		"waits":     {nil, 5},
		"fail fast": {[]core.CallOption{policy(t, core.WithFailFast())}, 5},
		"lingers":   {[]core.CallOption{policy(t, core.WithLinger(time.Minute))}, 3},
	} {
		eng := newEngine(t, memstore.New())
		n := testing.AllocsPerRun(1000, func() { must(t, eng.Do(ctx, "k", noWork, tc.opts...)) })
		check(t, n <= tc.most, "%s: %v allocations", name, n)
	}
}

// TestManyKeys: an engine keeps nothing of a key that nobody holds, so that clients who make up keys
// do not fill its memory.
func TestManyKeys(t *testing.T) {
	if testing.Short() {
		t.Skip("only in the long run")
	}
	keys := 200_000
	if racing {
		keys /= 5
	}
	eng := newEngine(t, memstore.New(), core.WithLinger(time.Millisecond))
	do := func(n int) (heap int) {
		for i := range n {
			must(t, eng.Do(bg, "user:"+strconv.Itoa(i), noWork))
		}
		time.Sleep(50 * time.Millisecond) // leases that linger end
		return int(memory().HeapAlloc)
	}
	before := do(1000)
	left := do(keys) - before
	check(t, left <= 20*keys, "%d keys left %d KiB behind", keys, left>>10) // an entry of a map takes more than 20 bytes
}

// A caller in line took 6.3 KiB besides what its goroutine takes anyway: what the
// acquisition needs before and after the wait was on its stack, which had doubled
// twice for it.
func TestWaiterTakesLessThanFourKiB(t *testing.T) {
	if racing {
		t.Skip("the race detector makes stacks larger")
	}
	const waiters, most = 5000, 4096
	eng := newEngine(t, memstore.New(), core.WithMaxWait(core.Forever), core.WithMaxWaiters(2*waiters))
	policy := policy(t, core.WithRule("rule"))

	// The size that stacks begin with follows the average of those that there are. A
	// crowd of small ones keeps it at its least.
	_, disperse := idlers(t, waiters)
	defer disperse()
	alone, end := idlers(t, waiters)
	end()

	for name, wait := range map[string]func() error{
		"Do, options":   func() error { return eng.Do(bg, "k", noWork, policy, core.WithTTL(time.Minute)) },
		"DoAll, shared": func() error { return eng.DoAll(bg, []core.Claim{core.Shared("k")}, noWork) },
		"Once":          func() error { return errOf(eng.Once(bg, "k", nothing)) },
	} {
		t.Run(name, func(t *testing.T) {
			holder := mustAcquire(t, eng, "k")
			each, gone := takes(t, waiters, func() { wantNil(t, wait()) }, func() bool {
				n := core.Waiting(eng)
				return n == waiters || n == waiters-1 // one may ask the store by now
			})
			mustRelease(t, holder)
			gone()
			check(t, each-alone <= most, "%d bytes each, besides their goroutines' %d", each-alone, alone)
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
	m := memory()
	return int(m.HeapInuse + m.StackInuse)
}

func memory() (m runtime.MemStats) {
	runtime.GC()
	runtime.GC() // what the first one left to sweep
	runtime.ReadMemStats(&m)
	return m
}
