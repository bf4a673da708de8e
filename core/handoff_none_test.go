package core_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/experimental/carry"
)

// What the next caller can't take over as it is, or what may not be in force, is not handed on: the next
// one asks the store, although the former holder may still be at work. A carried lease's owner may be believed elsewhere
// for as long as the store knows it, so nobody else gets its owner.
func TestNotHandedOff(t *testing.T) {
	type task = func(context.Context) error
	do := func(opts ...core.CallOption) func(*core.Engine, task) error {
		return func(eng *core.Engine, fn task) error { return eng.Do(bg, "k", fn, opts...) }
	}
	renewal := func(answer func(*spy) error) func(*spy, *core.Lease) {
		return func(s *spy, _ *core.Lease) {
			time.Sleep(20 * time.Millisecond) // long enough for the store to be asked before the hand-off
			s.change(func() { s.onRenew = func(context.Context, driver.Grant) error { return answer(s) } })
		}
	}
	for name, tc := range map[string]struct {
		next    func(*core.Engine, task) error // nil: as the first one
		before  func(*spy, *core.Lease)        // the release
		release error
	}{
		"another TTL": {next: do(core.WithTTL(time.Minute))},
		"shared":      {next: do(core.WithShared())},
		"a set":       {next: func(eng *core.Engine, fn task) error { return eng.DoAll(bg, exclusive("k", "l"), fn) }},
		"once": {next: func(eng *core.Engine, fn task) error {
			_, err := eng.Once(bg, "k", func(ctx context.Context) ([]byte, error) { return nil, fn(ctx) })
			return err
		}},
		"carried":                   {before: func(_ *spy, l *core.Lease) { carry.Leases(l.Context()) }},
		"max hold is over":          {before: func(*spy, *core.Lease) { time.Sleep(60 * time.Millisecond) }, release: core.ErrLeaseLost},
		"gone at the store":         {before: renewal(func(s *spy) error { s.Store.ForceRelease(bg, "k", "test"); return nil }), release: core.ErrLeaseLost},
		"the store refuses to tell": {before: renewal(func(*spy) error { return errDown })},
		"the store hangs":           {before: renewal(func(*spy) error { time.Sleep(time.Second); return errDown })},
	} {
		inBubble(t, name, func(t *testing.T) {
			spy, eng := newSpied(t)
			first := mustAcquire(t, eng, "k", core.WithMaxHold(50*time.Millisecond))
			if tc.next == nil {
				tc.next = do()
			}
			var all sync.WaitGroup
			all.Go(func() {
				wantNil(t, tc.next(eng, func(ctx context.Context) error {
					l, _ := core.LeaseFrom(ctx)
					if core.Observed(l).HandedOff() || l.Owner() == first.Owner() || l.Token() <= first.Token() {
						t.Errorf("handed off: %t, token %d after %d", core.Observed(l).HandedOff(), l.Token(), first.Token())
					}
					return nil
				}))
			})
			synctest.Wait()
			if tc.before != nil {
				tc.before(spy, first)
			}
			wantIs(t, "Release", first.Release(bg), tc.release)
			all.Wait()
		})
	}
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
