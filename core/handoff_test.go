package core_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
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

// The waiters of one process are served in the order they came. The store never sees more than one of
// them (redsync#102, #122), which asks once, however long it waits (rueidis#602, rueidis#372), and whose grant serves
// the whole line, with tokens that rise. None sleeps past its turn. (redisson#3891, rueidis#653)
func TestHandOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy, eng := newSpied(t, core.WithMaxHold(core.Forever), core.WithMaxWait(core.Forever))
		c := &crowd{t: t}
		holder := mustAcquire(t, eng, "k")
		for i := range 15 {
			c.join(eng, fmt.Sprint(i), time.Millisecond)
		}
		time.Sleep(time.Hour)
		began := time.Now()
		mustRelease(t, holder)
		c.all.Wait()
		wantTook(t, began, 15*time.Millisecond)
		if spy.requests() != 2 || spy.mostAtOne != 1 || !slices.Equal(c.order, c.names(15)) { // by the holder, and by the first waiter
			t.Errorf("%d requests, %d at a time; served in the order %v", spy.requests(), spy.mostAtOne, c.order)
		}
		first := c.leases[0]
		for i, l := range c.leases {
			if core.Observed(l).HandedOff() != (i > 0) || l.Owner() != first.Owner() || l.Token() != first.Token()+uint64(i) {
				t.Errorf("token %d after %d, owner %s after %s, handed off: %t", l.Token(), first.Token(), l.Owner(), first.Owner(), core.Observed(l).HandedOff())
			}
		}
		l := mustAcquire(t, eng, "k")
		check(t, l.Token() > first.Token()+14 && !core.Observed(l).HandedOff(), "the next grant has token %d after %d", l.Token(), first.Token()+14)
		mustRelease(t, l)
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
		check(t, slices.Equal(c.order, want), "served in the order %v, want %v", c.order, want)
	})
}

// Each holder's time is its own, and the term goes on: it is renewed a third of the TTL
// after the store's last word, whoever has it then. That is the grant, or the answer
// to a holder of more than a moment who asked before it handed the lease on.
func TestHandedOffLeaseIsRenewedInTime(t *testing.T) {
	for hold, asks := range map[time.Duration]int{9 * time.Millisecond: 0, 90 * time.Millisecond: 1} {
		inBubble(t, hold.String(), func(t *testing.T) {
			const ttl = 3 * time.Second
			spy, eng := newSpied(t)
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
			check(t, l.Deadline().Equal(deadline), "the deadline is %v, want %v", l.Deadline(), deadline)
			time.Sleep(time.Until(last.Add(time.Second + time.Millisecond)))
			synctest.Wait()
			left := time.Until(l.Deadline())
			check(t, left >= 2900*time.Millisecond, "not renewed after a third of the TTL: %v left", left)
			time.Sleep(10 * time.Second)
			mustRelease(t, l)
		})
	}
}

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
		// It may put the lease on a shorter term at the store than the next one would count on.
		"an extension is under way": {before: func(s *spy, l *core.Lease) {
			s.onRenew = func(context.Context, driver.Grant) error { time.Sleep(20 * time.Millisecond); return nil }
			go func() { _ = l.Extend(bg, 100*time.Millisecond) }()
			synctest.Wait()
		}},
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
					check(t, !core.Observed(l).HandedOff() && l.Owner() != first.Owner() && l.Token() > first.Token(), "handed off: %t, token %d after %d", core.Observed(l).HandedOff(), l.Token(), first.Token())
					return nil
				}))
			})
			synctest.Wait()
			if tc.before != nil {
				tc.before(spy, first)
			}
			wantIs(t, "Release", first.Release(bg), tc.release)
			all.Wait()
			time.Sleep(time.Second) // the extension ends
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
