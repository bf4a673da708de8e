package locktest_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/locktest"
)

var ctx = context.Background()

func acquire(t *testing.T, eng *core.Engine, key string, opts ...core.CallOption) *core.Lease {
	t.Helper()
	l, err := eng.Acquire(ctx, key, opts...)
	must(t, err)
	return l
}

func release(t *testing.T, l *core.Lease) {
	t.Helper()
	wantNil(t, l.Release(ctx))
}

func TestKitIsClosedWithItsTest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &judged{TB: t}
		kit := locktest.New(j)
		l := acquire(t, kit.Engine, "k")
		time.AfterFunc(time.Second, func() { _ = l.Release(ctx) }) // a handler that is about to end
		kit.Store.Hang()                                           // a fault left on is no reason to hang
		j.end()
		wantNone(t, j)
		wantIs(t, "open still", checktest.ErrorOf(kit.Engine.Acquire(ctx, "k")), driver.ErrClosed)
	})
}

func TestKitFailsATestThatLeavesALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &judged{TB: t}
		acquire(t, locktest.New(j).Engine, "k")
		j.end()
		wantFailure(t, j, `1 lease still held: context deadline exceeded; never released: ["k"]`)
	})
}

func TestKitRefusesBadOptions(t *testing.T) {
	defer func() {
		said, _ := recover().(fatal)
		check(t, strings.Contains(string(said), "WithTTL"), "said %q", said)
	}()
	locktest.New(&judged{TB: t}, core.WithTTL(0))
}

func TestPeersShareLocksAndNotFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		west := locktest.New(t)
		east := west.Peer(t)
		l := acquire(t, west.Engine, "k")
		wantIs(t, "another process got it as well", checktest.ErrorOf(east.Engine.TryAcquire(ctx, "k")), driver.ErrHeld)
		east.Store.Refuse()
		wantIs(t, "east", checktest.ErrorOf(east.Engine.TryAcquire(ctx, "k")), driver.ErrUnavailable)
		release(t, l)
		release(t, acquire(t, west.Engine, "k"))
		check(t, len(east.Locks.Keys()) == 0 && len(west.Locks.Keys()) == 2, "west saw %q, east %q", west.Locks.Keys(), east.Locks.Keys())
	})
}

func TestOtherHooksAreCalledToo(t *testing.T) {
	var mine locktest.Recorder
	kit := locktest.New(t, core.WithHooks(mine.Hooks()))
	release(t, acquire(t, kit.Engine, "k"))
	mine.AssertLocked(t, "k")
	kit.Locks.AssertLocked(t, "k")
}

func TestRecorder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kit := locktest.New(t)
		first := acquire(t, kit.Engine, "a", core.WithRule("rule"))
		j := &judged{TB: t}
		kit.Locks.AssertReleased(j)
		wantFailure(t, j, `"a" is still held`)
		time.Sleep(time.Second)
		release(t, first)
		release(t, acquire(t, kit.Engine, "b"))

		j = &judged{TB: t}
		kit.Locks.AssertLocked(j, "a", "b")
		kit.Locks.AssertReleased(j)
		kit.Locks.AssertNeverUnlocked(j)
		wantNone(t, j)
		kit.Locks.AssertLocked(j, "c")
		wantFailure(t, j, `"c" was never locked`, `"a"`, `"b"`)

		h := kit.Locks.Holds()[0]
		check(t, h.Rule == "rule" && h.Token == first.Token() && h.End.Sub(h.Begin) == time.Second && h.Err == nil, "remembered %+v", h)

		lost := acquire(t, kit.Engine, "lost")
		kit.Store.Lose("lost")
		_ = lost.Release(ctx)
		j = &judged{TB: t}
		kit.Locks.AssertReleased(j)
		wantFailure(t, j, `"lost" was not released`)

		kit.Store.Refuse()
		wantNil(t, kit.Engine.Do(ctx, "d", func(context.Context) error { return nil }, core.WithRunUnlocked()))
		j = &judged{TB: t}
		kit.Locks.AssertNeverUnlocked(j)
		wantFailure(t, j, `"d"`)
	})
}

// asksBack is a lease whose names need the recorder.
type asksBack struct {
	observe.Lease
	recorder *locktest.Recorder
	asked    chan struct{}
}

func (l asksBack) Claims() []driver.Claim {
	l.recorder.Holds()
	close(l.asked)
	return nil
}

func (asksBack) Rule() string { return "" }

func (asksBack) Token() uint64 { return 0 }

// A lease takes a mutex of the engine to name its claims, so the recorder does not hold its own.
func TestRecorderAsksALeaseWithoutItsMutex(t *testing.T) {
	var r locktest.Recorder
	asked := make(chan struct{})
	go r.Hooks().HoldStart(ctx, asksBack{recorder: &r, asked: asked})
	select {
	case <-asked:
	case <-time.After(10 * time.Second):
		t.Error("it holds its mutex")
	}
}

func TestSection(t *testing.T) {
	j := &judged{TB: t}
	s := locktest.NewSection(j)
	leave := s.Enter("a")
	s.Enter("b")()
	leave()
	leave() // harmless
	leave = s.Enter("a")
	wantNone(t, j)
	defer leave()
	defer s.Enter("a")()
	wantFailure(t, j, "2 at a time", `"a"`)
	check(t, s.Entered("a") == 3 && s.Entered("b") == 1 && s.Entered("c") == 0, "entered a %d times, b %d, c %d", s.Entered("a"), s.Entered("b"), s.Entered("c"))
}

// The two together, as a user's test has them: without the lock it fails.
func TestSectionTellsLockedFromUnlocked(t *testing.T) {
	for name, locked := range map[string]bool{"with the lock": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				kit := locktest.New(t)
				j := &judged{TB: t}
				s := locktest.NewSection(j)
				work := func(context.Context) error {
					defer s.Enter("k")()
					time.Sleep(time.Second)
					return nil
				}
				var all sync.WaitGroup
				for range 5 {
					all.Go(func() {
						if locked {
							_ = kit.Engine.Do(ctx, "k", work)
						} else {
							_ = work(ctx)
						}
					})
				}
				all.Wait()
				failed := len(j.said) > 0
				check(t, failed != locked && s.Entered("k") == 5, "failed %v, entered %d times", failed, s.Entered("k"))
			})
		})
	}
}
