package core_test

import (
	"context"
	"errors"
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
	spy := newSpy()
	eng := newEngine(t, spy)
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
	_, err := eng.TryAcquire(bg, "k")
	wantOnly(t, err, core.ErrHeld)
	mustRelease(t, outer)
	isFree(t, eng, "k")
}

// Released in the wrong order, and from a goroutine that the holder forgot.
func TestOuterReleaseEndsTheNested(t *testing.T) {
	eng := newEngine(t, newSpy())
	outer := mustAcquire(t, eng, "k")
	inner := within(t, eng, outer)
	mustRelease(t, outer)
	wantOnly(t, context.Cause(inner.Context()), core.ErrReleased)
	for range 2 {
		err := inner.Release(bg)
		wantOnly(t, err, core.ErrLeaseLost)
		wantOnly(t, inner.Err(), core.ErrLeaseLost)
		if lost := (*core.LeaseLostError)(nil); !errors.As(err, &lost) || lost.Reason != driver.LossOuter || lost.Key != "k" || lost.Token != outer.Token() {
			t.Errorf("lost: %+v", lost)
		}
	}
	isFree(t, eng, "k")
}

func TestOuterLossEndsTheNested(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy := newSpy()
		eng := newEngine(t, spy)
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
			_, err := eng.TryAcquire(context.WithoutCancel(ctx), "k")
			wantOnly(t, err, core.ErrHeld)
			return nil
		})
		if lost := (*core.LeaseLostError)(nil); !ran || !errors.As(err, &lost) || lost.Reason != driver.LossTaken || lost.Token != outer.Token() {
			t.Errorf("Do: ran %v, %v", ran, err)
		}
		wantOnly(t, outer.Release(bg), core.ErrLeaseLost)
	})
}

// A lease that ended before is none, whatever its context says.
func TestEndedLeaseCoversNothing(t *testing.T) {
	store := newSpy()
	eng := newEngine(t, store)
	outer := mustAcquire(t, eng, "k")
	inner := within(t, eng, outer)
	kept := context.WithoutCancel(inner.Context())
	mustRelease(t, inner)
	again, err := eng.Acquire(kept, "k") // the outer one is still there
	if err != nil || core.Observed(again).Depth() != 2 || store.requests() != 1 {
		t.Errorf("depth %d, asked %d, %v", core.Observed(again).Depth(), store.requests(), err)
	}
	mustRelease(t, again)
	mustRelease(t, outer)
	fresh, err := eng.Acquire(kept, "k")
	if err != nil || core.Observed(fresh).Depth() != 1 || store.requests() != 2 {
		t.Errorf("depth %d, asked %d, %v", core.Observed(fresh).Depth(), store.requests(), err)
	}
	mustRelease(t, fresh)
}

// All pairs of modes on one key.
func TestWhatALeaseCovers(t *testing.T) {
	exclusive, shared, permit, other := core.Exclusive("k"), core.Shared("k"), core.Permit("k", 3), core.Permit("k", 9)
	for _, tt := range []struct {
		held, wanted core.Claim
		covered      bool
	}{
		{exclusive, exclusive, true},
		{exclusive, shared, true},
		{exclusive, permit, true},
		{shared, exclusive, false},
		{shared, shared, true},
		{shared, permit, false},
		{permit, exclusive, false},
		{permit, shared, false},
		{permit, permit, true},
		{permit, other, true},
	} {
		t.Run(tt.held.Mode.String()+"/"+tt.wanted.Mode.String(), func(t *testing.T) {
			store := newSpy()
			eng := newEngine(t, store)
			outer := acquireAll(t, eng, tt.held)
			defer mustRelease(t, outer)
			for _, opt := range []core.CallOption{core.WithMaxWait(time.Hour), core.WithFailFast(), core.WithRunUnlocked()} {
				ran := false
				err := eng.DoAll(outer.Context(), []core.Claim{tt.wanted}, func(context.Context) error { ran = true; return nil }, opt)
				var circle *driver.DeadlockError
				switch {
				case tt.covered && (err != nil || !ran):
					t.Errorf("ran %v, %v", ran, err)
				case !tt.covered && (!errors.As(err, &circle) || !errors.Is(err, core.ErrWouldDeadlock) || ran):
					t.Errorf("ran %v, %v", ran, err)
				case !tt.covered:
					wantOnly(t, err)
					if *circle != (driver.DeadlockError{Key: "k", Held: tt.held, Wanted: tt.wanted}) {
						t.Errorf("%+v", circle)
					}
				}
			}
			if store.requests() != 1 {
				t.Errorf("the store was asked %d times", store.requests())
			}
		})
	}
}

func TestOnceOnAHeldKey(t *testing.T) {
	store := newSpy()
	eng := newEngine(t, store)
	_, err := eng.Once(bg, "k", func(ctx context.Context) ([]byte, error) {
		_, err := eng.Once(ctx, "k", func(context.Context) ([]byte, error) { t.Error("it ran"); return nil, nil })
		var circle *driver.DeadlockError
		if !errors.As(err, &circle) || !circle.Once || circle.Key != "k" || store.requests() != 1 {
			t.Errorf("%v; asked %d times", err, store.requests())
		}
		return nil, eng.Do(ctx, "k", noWork) // that is re-entrance
	})
	wantNil(t, err)
}

func TestAnotherEnginesLeaseIsAStrangers(t *testing.T) {
	spy := newSpy()
	one, two := newEngine(t, spy), newEngine(t, spy.Peer())
	l := mustAcquire(t, one, "k")
	_, err := two.TryAcquire(l.Context(), "k")
	wantOnly(t, err, core.ErrHeld)
	mustRelease(t, l)
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
		_, err = eng.Acquire(outer.Context(), "other")
		wantOnly(t, err, core.ErrClosed)
		mustRelease(t, outer)
		all.Wait()
		_, err = eng.Acquire(context.WithoutCancel(outer.Context()), "k")
		wantOnly(t, err, core.ErrClosed)
	})
}

func TestNestedUnderAnEndedContext(t *testing.T) {
	eng := newEngine(t, newSpy())
	outer := mustAcquire(t, eng, "k")
	ctx, cancel := context.WithCancel(outer.Context())
	cancel()
	_, err := eng.Acquire(ctx, "k")
	wantOnly(t, err, context.Canceled)
	mustRelease(t, outer)
}
