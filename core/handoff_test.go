package core_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/experimental/carry"
	"github.com/keyturn/keyturn/store/memstore"
)

// crowd is callers who wait for "k" and hold it one after the other.
type crowd struct {
	t      *testing.T
	all    sync.WaitGroup
	mu     sync.Mutex
	order  []string
	leases []*core.Lease
}

// join has one more caller wait, and then hold the key for so long.
func (c *crowd) join(eng *core.Engine, name string, hold time.Duration, opts ...core.CallOption) {
	c.t.Helper()
	c.all.Go(func() {
		l := mustAcquire(c.t, eng, "k", opts...)
		c.mu.Lock()
		c.order, c.leases = append(c.order, name), append(c.leases, l)
		c.mu.Unlock()
		time.Sleep(hold)
		mustRelease(c.t, l)
	})
	synctest.Wait()
}

func (c *crowd) names(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint(i))
	}
	return names
}

// One grant serves the whole line, in order, and with tokens that rise.
func TestHandOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy := newSpy()
		asked := 0
		spy.onAcquire = func(context.Context, driver.Request) error { asked++; return nil }
		eng := newEngine(t, spy)
		c := &crowd{t: t}
		first := mustAcquire(t, eng, "k")
		for i := range 15 {
			c.join(eng, fmt.Sprint(i), time.Millisecond)
		}
		mustRelease(t, first)
		c.all.Wait()
		if asked != 1 {
			t.Errorf("the store was asked %d times", asked)
		}
		if !slices.Equal(c.order, c.names(15)) {
			t.Errorf("served in the order %v", c.order)
		}
		last := first.Token()
		for _, l := range c.leases {
			if !core.Observed(l).HandedOff() || l.Owner() != first.Owner() || l.Token() != last+1 {
				t.Errorf("token %d after %d, owner %s after %s, handed off: %t", l.Token(), last, l.Owner(), first.Owner(), core.Observed(l).HandedOff())
			}
			last = l.Token()
		}
		if l := mustAcquire(t, eng, "k"); l.Token() <= last || core.Observed(l).HandedOff() {
			t.Errorf("the next grant has token %d after %d", l.Token(), last)
		} else {
			mustRelease(t, l)
		}
	})
}

// What can't take over a lease as it is asks the store.
func TestNotHandedOff(t *testing.T) {
	once := func(eng *core.Engine) error {
		_, err := eng.Once(context.Background(), "k", func(context.Context) ([]byte, error) { return nil, nil })
		return err
	}
	for name, next := range map[string]func(*core.Engine) error{
		"another TTL": func(eng *core.Engine) error {
			return eng.Do(context.Background(), "k", func(context.Context) error { return nil }, core.WithTTL(time.Minute))
		},
		"shared": func(eng *core.Engine) error {
			return eng.Do(context.Background(), "k", func(context.Context) error { return nil }, core.WithShared())
		},
		"a set": func(eng *core.Engine) error {
			return eng.DoAll(context.Background(), []core.Claim{core.Exclusive("k"), core.Exclusive("l")}, func(context.Context) error { return nil })
		},
		"once": once,
	} {
		synctest.Test(t, func(t *testing.T) {
			spy := newSpy()
			var released atomic.Int32
			spy.onRelease = func(context.Context, driver.Grant) error { released.Add(1); return nil }
			eng := newEngine(t, spy)
			first := mustAcquire(t, eng, "k")
			var all sync.WaitGroup
			all.Go(func() {
				if err := next(eng); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
			synctest.Wait()
			mustRelease(t, first)
			if n := released.Load(); n < 1 {
				t.Errorf("%s: the store was told of no release", name)
			}
			all.Wait()
		})
	}
}

// A carried lease's owner may be believed elsewhere for as long as the store
// knows it; so it is released, and nobody else gets its owner.
func TestCarriedLeaseIsNotHandedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng := newEngine(t, newSpy())
		c := &crowd{t: t}
		first := mustAcquire(t, eng, "k")
		c.join(eng, "0", 0)
		if carry.Leases(first.Context()) == "" {
			t.Fatal("nothing carried")
		}
		mustRelease(t, first)
		c.all.Wait()
		if c.leases[0].Owner() == first.Owner() {
			t.Error("the next one has the owner that was carried")
		}
	})
}

// While another process waits, a streak ends with those who stood in line when
// the grant came.
func TestHandOffLeavesTurnsToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		here, there := newEngine(t, store), newEngine(t, store.Peer())
		c := &crowd{t: t}
		outside := mustAcquire(t, newEngine(t, store.Peer()), "k", core.WithFailFast())
		c.join(here, "here 0", time.Millisecond)
		c.join(here, "here 1", time.Millisecond)
		c.join(here, "here 2", time.Millisecond)
		c.join(there, "there 0", time.Millisecond)
		c.join(there, "there 1", time.Millisecond)
		mustRelease(t, outside)
		time.Sleep(500 * time.Microsecond)
		c.join(here, "here 3", 0) // the grant is there: behind the other process
		c.all.Wait()
		want := []string{"here 0", "here 1", "here 2", "there 0", "there 1", "here 3"}
		if !slices.Equal(c.order, want) {
			t.Errorf("served in the order %v, want %v", c.order, want)
		}
	})
}

// A process that comes during a streak of which nobody told that others wait
// gets its turn within a tenth of a second, whatever the crowd here.
func TestHandOffEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		here, there := newEngine(t, store), newEngine(t, store.Peer())
		c := &crowd{t: t}
		first := mustAcquire(t, here, "k")
		for i := range 500 {
			c.join(here, fmt.Sprint(i), time.Millisecond)
		}
		mustRelease(t, first)
		began := time.Now()
		l := mustAcquire(t, there, "k")
		if waited := time.Since(began); waited > 102*time.Millisecond {
			t.Errorf("waited %v", waited)
		}
		if core.Observed(l).HandedOff() {
			t.Error("handed off to another process")
		}
		mustRelease(t, l)
		c.all.Wait()
		if !slices.Equal(c.order, c.names(500)) {
			t.Errorf("served in the order %v", c.order)
		}
	})
}

// Who waits behind a long hold gets into the store's queue after a while, and
// keeps its place among the other processes there.
func TestWaitingForAHandOffKeepsThePlaceAmongProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		here, there := newEngine(t, store), newEngine(t, store.Peer())
		c := &crowd{t: t}
		long := mustAcquire(t, here, "k")
		c.join(here, "here", 0)
		time.Sleep(150 * time.Millisecond)
		c.join(there, "there", 0)
		time.Sleep(time.Second)
		mustRelease(t, long)
		c.all.Wait()
		if !slices.Equal(c.order, []string{"here", "there"}) {
			t.Errorf("served in the order %v", c.order)
		}
	})
}

// A lost lease is nobody's to hand on: the next one asks the store, while the
// former holder is still at work.
func TestLostLeaseIsNotHandedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy := newSpy()
		eng := newEngine(t, spy)
		lost := mustAcquire(t, eng, "k", core.WithMaxHold(50*time.Millisecond))
		c := &crowd{t: t}
		c.join(eng, "0", 0)
		time.Sleep(60 * time.Millisecond)
		if lost.Err() == nil {
			t.Fatal("the lease is in force")
		}
		if err := lost.Release(context.Background()); err == nil {
			t.Error("a lost lease was released")
		}
		c.all.Wait()
		if core.Observed(c.leases[0]).HandedOff() {
			t.Error("a lost lease was handed on")
		}
	})
}

// An extension may be on its way when the holder is done, and put the lease on a
// shorter term at the store than the next one would count on.
func TestLeaseWithAnExtensionUnderWayIsNotHandedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy := newSpy()
		spy.onRenew = func(context.Context, driver.Grant) error { time.Sleep(20 * time.Millisecond); return nil }
		eng, other := newEngine(t, spy), newEngine(t, spy.Peer())
		first := mustAcquire(t, eng, "k")
		c := &crowd{t: t}
		c.join(eng, "0", time.Second)
		var all sync.WaitGroup
		all.Go(func() { _ = first.Extend(context.Background(), 100*time.Millisecond) })
		synctest.Wait()
		mustRelease(t, first)
		all.Wait()
		time.Sleep(200 * time.Millisecond)
		if l, err := other.TryAcquire(context.Background(), "k"); err == nil {
			t.Errorf("two have the key; handed off: %t", core.Observed(c.leases[0]).HandedOff())
			mustRelease(t, l)
		}
		c.all.Wait()
	})
}

// Each holder's time is its own, and the term goes on: it is renewed a third of the TTL
// after the store's last word, whoever has it then. That is the grant, or the answer
// to a holder of more than a moment who asked before it handed the lease on.
func TestHandedOffLeaseIsRenewedInTime(t *testing.T) {
	for hold, asks := range map[time.Duration]int{9 * time.Millisecond: 0, 90 * time.Millisecond: 1} {
		t.Run(hold.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const ttl = 3 * time.Second
				spy := newSpy()
				eng := newEngine(t, spy)
				last := time.Now()
				first := mustAcquire(t, eng, "k", core.WithTTL(ttl))
				deadline := first.Deadline()
				time.Sleep(hold)
				got := make(chan *core.Lease)
				go func() { got <- mustAcquire(t, eng, "k", core.WithTTL(ttl)) }()
				synctest.Wait()
				if asks > 0 {
					last, deadline = time.Now(), deadline.Add(hold)
				}
				mustRelease(t, first)
				l := <-got
				if !core.Observed(l).HandedOff() || spy.renewals() != asks {
					t.Fatalf("handed off: %t; the store was asked %d times", core.Observed(l).HandedOff(), spy.renewals())
				}
				if !l.Deadline().Equal(deadline) {
					t.Errorf("the deadline is %v, want %v", l.Deadline(), deadline)
				}
				time.Sleep(time.Until(last.Add(time.Second + time.Millisecond)))
				synctest.Wait()
				if left := time.Until(l.Deadline()); left < 2900*time.Millisecond {
					t.Errorf("not renewed after a third of the TTL: %v left", left)
				}
				time.Sleep(10 * time.Second)
				mustRelease(t, l)
			})
		})
	}
}

// How often a streak asks the store goes with its time and not with its hands.
func TestHandOffAsksNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy := newSpy()
		eng := newEngine(t, spy)
		c := &crowd{t: t}
		first := mustAcquire(t, eng, "k")
		for i := range 90 {
			c.join(eng, fmt.Sprint(i), time.Millisecond)
		}
		mustRelease(t, first)
		c.all.Wait()
		if asked := spy.renewals(); asked < 7 || asked > 9 {
			t.Errorf("asked %d times in 90 ms", asked)
		}
		// The first caller found nobody in line, so its grant is good for a few.
		if last := c.leases[89]; !core.Observed(last).HandedOff() || last.Owner() != c.leases[20].Owner() {
			t.Errorf("the second grant did not serve the rest: %+v", last)
		}
	})
}

// A store that says the lease is gone, or nothing, or that hangs, leaves the release
// to say what became of it. The next caller asks for itself.
func TestNoHandOffWithoutTheStoresWord(t *testing.T) {
	for name, tt := range map[string]struct {
		renew   func(*spy) error
		release error
	}{
		"lost":    {func(s *spy) error { s.Store.ForceRelease(bg, "k", "test"); return nil }, core.ErrLeaseLost},
		"refused": {func(*spy) error { return errDown }, nil},
		"hangs":   {func(*spy) error { time.Sleep(time.Second); return errDown }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				spy := newSpy()
				eng := newEngine(t, spy)
				first := mustAcquire(t, eng, "k")
				time.Sleep(20 * time.Millisecond)
				c := &crowd{t: t}
				c.join(eng, "next", 0)
				spy.change(func() { spy.onRenew = func(context.Context, driver.Grant) error { return tt.renew(spy) } })
				if err := first.Release(bg); tt.release == nil && err != nil || tt.release != nil && !errors.Is(err, tt.release) {
					t.Error(err)
				}
				c.all.Wait()
				if next := c.leases[0]; core.Observed(next).HandedOff() || next.Owner() == first.Owner() || next.Token() <= first.Token() {
					t.Errorf("handed off: %t, token %d after %d", core.Observed(next).HandedOff(), next.Token(), first.Token())
				}
			})
		})
	}
}

// An heir who has gone passes the lease on; one who goes at that very moment, too.
func TestHandOffToSomebodyWhoHasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng := newEngine(t, newSpy())
		for range 200 {
			ctx, cancel := context.WithCancel(context.Background())
			first := mustAcquire(t, eng, "k")
			var all sync.WaitGroup
			all.Go(func() {
				if l, err := eng.Acquire(ctx, "k"); err == nil {
					mustRelease(t, l)
				}
			})
			synctest.Wait()
			all.Go(func() { mustRelease(t, mustAcquire(t, eng, "k")) })
			synctest.Wait()
			all.Go(cancel)
			all.Go(func() { mustRelease(t, first) })
			all.Wait()
		}
	})
}

func TestCloseDuringAStreak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng := newEngine(t, newSpy())
		first := mustAcquire(t, eng, "k")
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				if l, err := eng.Acquire(context.Background(), "k"); err == nil {
					mustRelease(t, l)
				} else {
					wantOnly(t, err, core.ErrClosed)
				}
			})
		}
		synctest.Wait()
		all.Go(func() {
			if err := eng.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
		mustRelease(t, first)
		all.Wait()
	})
}

// A lease that is held for long has no line, so that many of them cost little;
// and who comes for its key then waits as for any other.
func TestLongHoldsNeedNoLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng := newEngine(t, newSpy(), core.WithTTL(time.Hour), core.WithMaxHold(core.Forever))
		var held []*core.Lease
		for i := range 5000 {
			held = append(held, mustAcquire(t, eng, fmt.Sprint("k", i)))
			time.Sleep(time.Millisecond)
		}
		if n := core.Lines(eng); n > 1500 {
			t.Errorf("%d lines for %d leases", n, len(held))
		}
		got := make(chan *core.Lease)
		go func() { got <- mustAcquire(t, eng, "k0") }()
		synctest.Wait()
		mustRelease(t, held[0])
		mustRelease(t, <-got)
		for _, l := range held[1:] {
			mustRelease(t, l)
		}
		if n := core.Lines(eng); n != 0 {
			t.Errorf("%d lines are left", n)
		}
	})
}
