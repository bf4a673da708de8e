package core_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/experimental/carry"
)

// A request that can't take over a lease as it is asks the store.
func TestNotHandedOff(t *testing.T) {
	for name, next := range map[string]func(*core.Engine) error{
		"another TTL": func(eng *core.Engine) error { return eng.Do(bg, "k", noWork, core.WithTTL(time.Minute)) },
		"shared":      func(eng *core.Engine) error { return eng.Do(bg, "k", noWork, core.WithShared()) },
		"a set":       func(eng *core.Engine) error { return eng.DoAll(bg, exclusive("k", "l"), noWork) },
		"once":        func(eng *core.Engine) error { _, err := eng.Once(bg, "k", nothing); return err },
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
		if err := lost.Release(bg); err == nil {
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
		all.Go(func() { _ = first.Extend(bg, 100*time.Millisecond) })
		synctest.Wait()
		mustRelease(t, first)
		all.Wait()
		time.Sleep(200 * time.Millisecond)
		if l, err := other.TryAcquire(bg, "k"); err == nil {
			t.Errorf("two have the key; handed off: %t", core.Observed(c.leases[0]).HandedOff())
			mustRelease(t, l)
		}
		c.all.Wait()
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
		inBubble(t, name, func(t *testing.T) {
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
	}
}

// An heir who has gone passes the lease on; one who goes at that very moment, too.
func TestHandOffToSomebodyWhoHasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng := newEngine(t, newSpy())
		for range 200 {
			ctx, cancel := context.WithCancel(bg)
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
