package core_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
)

// within is a lease under another one, of the same key.
func within(t *testing.T, eng *core.Engine, outer *core.Lease, opts ...core.CallOption) *core.Lease {
	t.Helper()
	inner, err := eng.TryAcquire(outer.Context(), outer.Key(), opts...)
	must(t, err)
	return inner
}

func TestNestedLeaseCounts(t *testing.T) {
	spy, eng := newSpied(t)
	outer := mustAcquire(t, eng, "k")
	innermost := outer
	for depth := 2; depth <= 4; depth++ {
		inner := within(t, eng, innermost, core.WithTTL(time.Hour), core.WithRule("inner"))
		if core.Observed(inner).Depth() != depth || core.Observed(outer).Depth() != 1 || core.Observed(inner).Rule() != "inner" {
			t.Errorf("depth %d of %d, want %d of 1", core.Observed(inner).Depth(), core.Observed(outer).Depth(), depth)
		}
		if inner.Token() != outer.Token() || inner.Owner() != outer.Owner() || !inner.Deadline().Equal(outer.Deadline()) ||
			inner.TTL() != outer.TTL() || inner.Key() != "k" || len(inner.Claims()) != 1 || inner.Err() != nil {
			t.Errorf("%+v is not in %+v", inner, outer)
		}
		if got, ok := core.LeaseFrom(inner.Context()); !ok || got != inner {
			t.Error("the handler can't find the nested lease")
		}
		innermost = inner
	}
	for range 2 { // it is idempotent
		mustRelease(t, innermost)
		wantOnly(t, innermost.Err(), core.ErrReleased)
		wantOnly(t, context.Cause(innermost.Context()), core.ErrReleased)
	}
	if outer.Err() != nil || outer.Context().Err() != nil || len(spy.released) != 0 || spy.requests() != 1 {
		t.Errorf("the outer one: %v, asked %d times, released %d times", outer.Err(), spy.requests(), len(spy.released))
	}
	wantOnly(t, errOf(eng.TryAcquire(bg, "k")), core.ErrHeld)
	mustRelease(t, outer)
	isFree(t, eng, "k")
}

// Released in the wrong order, and from a goroutine that the holder forgot. A lease that has ended covers nothing,
// whatever its context says, and another engine's lease is a stranger's.
func TestOuterReleaseEndsTheNested(t *testing.T) {
	spy, eng := newSpied(t)
	outer := mustAcquire(t, eng, "k")
	first, inner := within(t, eng, outer), within(t, eng, outer)
	kept := context.WithoutCancel(first.Context())
	mustRelease(t, first)
	again, err := eng.Acquire(kept, "k") // the outer one is still there
	check(t, err == nil && core.Observed(again).Depth() == 2 && spy.requests() == 1, "depth %d, asked %d, %v", core.Observed(again).Depth(), spy.requests(), err)
	mustRelease(t, again)
	wantOnly(t, errOf(newEngine(t, spy.Peer()).TryAcquire(outer.Context(), "k")), core.ErrHeld)
	ended, cancel := context.WithCancel(outer.Context())
	cancel()
	wantOnly(t, errOf(eng.Acquire(ended, "k")), context.Canceled)

	mustRelease(t, outer)
	wantOnly(t, context.Cause(inner.Context()), core.ErrReleased)
	for range 2 {
		err := inner.Release(bg)
		wantOnly(t, err, core.ErrLeaseLost)
		wantOnly(t, inner.Err(), core.ErrLeaseLost)
		lost := (*core.LeaseLostError)(nil)
		check(t, errors.As(err, &lost) && lost.Reason == driver.LossOuter && lost.Key == "k" && lost.Token == outer.Token(), "lost: %+v", lost)
	}
	fresh, err := eng.Acquire(kept, "k")
	check(t, err == nil && core.Observed(fresh).Depth() == 1 && spy.requests() == 2, "depth %d, asked %d, %v", core.Observed(fresh).Depth(), spy.requests(), err)
	mustRelease(t, fresh)
}

func TestOuterLossEndsTheNested(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy, eng := newSpied(t)
		outer := mustAcquire(t, eng, "k")
		var ran bool
		err := eng.Do(outer.Context(), "k", func(ctx context.Context) error {
			ran = true
			breakLock(t, spy, outer)
			thief := driver.Request{Owner: "thief", Claims: exclusive("k"), TTL: time.Hour}
			if _, err := spy.Store.Acquire(bg, thief); err != nil {
				t.Fatal(err)
			}
			<-ctx.Done()
			wantOnly(t, context.Cause(ctx), core.ErrLeaseLost)
			// A lost lease covers nothing: this caller counts as a stranger by now.
			wantOnly(t, errOf(eng.TryAcquire(context.WithoutCancel(ctx), "k")), core.ErrHeld)
			return nil
		})
		if lost := (*core.LeaseLostError)(nil); !ran || !errors.As(err, &lost) || lost.Reason != driver.LossTaken || lost.Token != outer.Token() {
			t.Errorf("Do: ran %v, %v", ran, err)
		}
		wantOnly(t, outer.Release(bg), core.ErrLeaseLost)
	})
}

// All pairs of modes on one key. What is not covered would wait for itself, which is an error at once.
func TestWhatALeaseCovers(t *testing.T) {
	exclusive, shared, permit, other := core.Exclusive("k"), core.Shared("k"), core.Permit("k", 3), core.Permit("k", 9)
	for held, covers := range map[core.Claim]map[core.Claim]bool{
		exclusive: {exclusive: true, shared: true, permit: true},
		shared:    {exclusive: false, shared: true, permit: false},
		permit:    {exclusive: false, shared: false, permit: true, other: true},
	} {
		spy, eng := newSpied(t)
		outer := acquireAll(t, eng, held)
		for wanted, covered := range covers {
			if err := core.AssertHeld(outer.Context(), wanted); (err == nil) != covered || err != nil && !strings.Contains(err.Error(), "held "+held.Mode.String()) {
				t.Errorf("%v in %v: %v", wanted.Mode, held.Mode, err)
			}
			for _, opt := range []core.CallOption{core.WithMaxWait(time.Hour), core.WithFailFast(), core.WithRunUnlocked()} {
				ran := false
				err := eng.DoAll(outer.Context(), []core.Claim{wanted}, func(context.Context) error { ran = true; return nil }, opt)
				var circle *driver.DeadlockError
				switch {
				case ran != covered || covered && err != nil:
					t.Errorf("%v in %v: ran %v, %v", wanted.Mode, held.Mode, ran, err)
				case !covered:
					wantOnly(t, err, core.ErrWouldDeadlock)
					check(t, errors.As(err, &circle) && *circle == (driver.DeadlockError{Key: "k", Held: held, Wanted: wanted}), "%+v", err)
				}
			}
		}
		_, err := eng.Once(outer.Context(), "k", neverRuns)
		if circle := (*driver.DeadlockError)(nil); !errors.As(err, &circle) || !circle.Once || circle.Key != "k" || spy.requests() != 1 {
			t.Errorf("Once in %v: %v, asked %d times", held.Mode, err, spy.requests())
		}
		mustRelease(t, outer)
	}
	eng := newEngine(t, newSpy())
	wantNil(t, errOf(eng.Once(bg, "k", func(ctx context.Context) ([]byte, error) { return nil, eng.Do(ctx, "k", noWork) })))
}

// Close waits for the outermost one, lets its work nest to the end, and does not
// wait for a nested one that nobody released.
func TestCloseAndNested(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng := open(t, newSpy())
		outer := mustAcquire(t, eng, "k")
		var all sync.WaitGroup
		all.Go(func() { shut(t, eng) })
		synctest.Wait()
		inner, err := eng.Acquire(outer.Context(), "k")
		if err != nil || inner.Err() != nil {
			t.Fatal(err)
		}
		wantOnly(t, errOf(eng.Acquire(outer.Context(), "other")), core.ErrClosed)
		mustRelease(t, outer)
		all.Wait()
		wantOnly(t, errOf(eng.Acquire(context.WithoutCancel(outer.Context()), "k")), core.ErrClosed)
	})
}
