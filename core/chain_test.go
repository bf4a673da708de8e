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

func TestAttach(t *testing.T) {
	store := newSpy()
	eng := newEngine(t, store)
	request, hangUp := context.WithCancel(bg)
	l, err := eng.Acquire(request, "k")
	must(t, err)
	ctx, cancel := l.Attach(bg)
	defer cancel()
	hangUp()
	if ctx.Err() != nil {
		t.Error("it ended with a request that is not its own")
	}
	if got, ok := core.LeaseFrom(ctx); !ok || got != l {
		t.Error("the lease is not there")
	}
	wantNil(t, core.AssertHeld(ctx, core.Exclusive("k")))
	inner, err := eng.Acquire(ctx, "k")
	if err != nil || core.Observed(inner).Depth() != 2 || store.requests() != 1 {
		t.Errorf("depth %d, %v", core.Observed(inner).Depth(), err)
	}
	mustRelease(t, l)
	if !errors.Is(context.Cause(ctx), core.ErrReleased) || !errors.Is(context.Cause(inner.Context()), core.ErrReleased) {
		t.Errorf("released: %v, %v", context.Cause(ctx), context.Cause(inner.Context()))
	}
	late, cancel := l.Attach(bg)
	defer cancel()
	if !errors.Is(context.Cause(late), core.ErrReleased) {
		t.Errorf("of an ended lease: %v", context.Cause(late))
	}
}

// The context is the caller's to end, too, and the lease keeps nothing of it.
func TestWithLeaseCancel(t *testing.T) {
	eng := newEngine(t, newSpy())
	l := mustAcquire(t, eng, "k")
	parent, end := context.WithCancel(bg)
	one, cancelOne := l.Attach(parent)
	two, cancelTwo := l.Attach(parent)
	cancelOne()
	cancelOne()
	if !errors.Is(context.Cause(one), context.Canceled) || two.Err() != nil {
		t.Errorf("%v, %v", context.Cause(one), two.Err())
	}
	end()
	if !errors.Is(context.Cause(two), context.Canceled) || l.Err() != nil {
		t.Errorf("%v, %v", context.Cause(two), l.Err())
	}
	cancelTwo()
	mustRelease(t, l)
}

func TestWithLeaseKeepsWhatTheContextHolds(t *testing.T) {
	store := newSpy()
	eng := newEngine(t, store)
	a, b := mustAcquire(t, eng, "a"), mustAcquire(t, eng, "b")
	ctx, cancel := b.Attach(a.Context())
	defer cancel()
	for _, key := range []string{"a", "b"} {
		wantNil(t, core.AssertHeld(ctx, core.Exclusive(key)))
	}
	both, err := eng.AcquireAll(ctx, exclusive("a", "b"))
	if err != nil || store.requests() != 2 {
		t.Errorf("asked %d times, %v", store.requests(), err)
	}
	mustRelease(t, both)
	mustRelease(t, b)
	wantNil(t, core.AssertHeld(context.WithoutCancel(ctx), core.Exclusive("a")))
	wantOnly(t, core.AssertHeld(ctx, core.Exclusive("b")), core.ErrReleased)
	mustRelease(t, a)
}

func TestWithLeaseAndLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy := newSpy()
		eng := newEngine(t, spy)
		for _, kept := range []bool{false, true} {
			var opts []core.CallOption
			if kept {
				opts = append(opts, core.WithoutCancelOnLoss())
			}
			l := mustAcquire(t, eng, "k", opts...)
			ctx, cancel := l.Attach(bg)
			breakLock(t, spy, l)
			time.Sleep(time.Minute)
			wantOnly(t, core.AssertHeld(ctx, core.Exclusive("k")), core.ErrLeaseLost)
			if ended := ctx.Err() != nil; ended == kept {
				t.Errorf("kept %v: %v", kept, ctx.Err())
			}
			wantOnly(t, l.Release(bg), core.ErrLeaseLost)
			wantOnly(t, context.Cause(ctx), core.ErrLeaseLost)
			cancel()
		}
	})
}

// A context that carries a nested lease ends with that lease, and with the outer one.
func TestWithNestedLease(t *testing.T) {
	eng := newEngine(t, newSpy())
	outer := mustAcquire(t, eng, "k")
	nest := func() (*core.Lease, context.Context) {
		l, err := eng.Acquire(outer.Context(), "k")
		must(t, err)
		ctx, cancel := l.Attach(bg)
		t.Cleanup(cancel)
		if core.AssertHeld(ctx, core.Exclusive("k")) != nil {
			t.Error("not held")
		}
		return l, ctx
	}
	l, ctx := nest()
	mustRelease(t, l)
	wantOnly(t, context.Cause(ctx), core.ErrReleased)
	wantOnly(t, core.AssertHeld(ctx, core.Exclusive("k")), core.ErrReleased)
	_, ctx = nest()
	mustRelease(t, outer)
	wantOnly(t, context.Cause(ctx), core.ErrReleased)
	wantOnly(t, core.AssertHeld(ctx, core.Exclusive("k")), core.ErrLeaseLost)
}

func TestWithLeaseConcurrently(t *testing.T) {
	eng := newEngine(t, newSpy())
	l := mustAcquire(t, eng, "k")
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			ctx, cancel := l.Attach(bg)
			defer cancel()
			if i == 25 {
				mustRelease(t, l)
			}
			if i%2 == 0 {
				<-ctx.Done()
			}
		})
	}
	all.Wait()
}

// A set of which the context holds a part.
func TestSetThatIsHeldInPart(t *testing.T) {
	store := newSpy()
	eng := newEngine(t, store)
	outer := mustAcquire(t, eng, "b")
	set, err := eng.AcquireAll(outer.Context(), exclusive("c", "b", "a"))
	must(t, err)
	if c := set.Claims(); len(c) != 2 || c[0].Key != "a" || c[1].Key != "c" || set.Token() == outer.Token() || core.Observed(set).Depth() != 1 {
		t.Errorf("claims %v, token %d in %d, depth %d", c, set.Token(), outer.Token(), core.Observed(set).Depth())
	}
	for _, key := range []string{"a", "b", "c"} {
		wantNil(t, core.AssertHeld(set.Context(), core.Exclusive(key)))
	}
	all, err := eng.AcquireAll(set.Context(), exclusive("a", "b", "c")) // by two leases
	if err != nil || store.requests() != 2 || core.Observed(all).Depth() != 2 || all.Token() != set.Token() || len(all.Claims()) != 2 {
		t.Errorf("asked %d times; depth %d, claims %v, %v", store.requests(), core.Observed(all).Depth(), all.Claims(), err)
	}
	mustRelease(t, all)
	mustRelease(t, set)
	mustRelease(t, set)
	if outer.Err() != nil || store.releases() != 1 {
		t.Errorf("outer: %v; %d releases", outer.Err(), store.releases())
	}

	err = eng.DoAll(outer.Context(), exclusive("a", "b"), func(ctx context.Context) error {
		mustRelease(t, outer)
		return nil
	})
	if lost := (*core.LeaseLostError)(nil); !errors.As(err, &lost) || lost.Key != "b" || lost.Reason != driver.LossOuter {
		t.Errorf("the part that it left to another was lost: %v", err)
	}
	if store.releases() != 3 || eng.Left() != "" {
		t.Errorf("%d releases; left: %s", store.releases(), eng.Left())
	}
}

// The rest is lost or not certainly released: that is for the set's lease to say.
func TestSetTellsHowItsRestEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy := newSpy()
		eng := newEngine(t, spy)
		outer := mustAcquire(t, eng, "a")
		within := func() *core.Lease {
			l, _ := eng.AcquireAll(outer.Context(), exclusive("a", "b"))
			return l
		}
		set := within()
		breakLock(t, spy, set)
		wantOnly(t, set.Release(bg), core.ErrLeaseLost)
		wantOnly(t, set.Err(), core.ErrLeaseLost)

		set = within()
		spy.onRelease = func(context.Context, driver.Grant) error { return errDown }
		wantOnly(t, set.Release(bg), core.ErrOutcomeUnknown, core.ErrUnavailable)
		spy.mend()
		mustRelease(t, set)
		isFree(t, eng, "b")
		mustRelease(t, outer)
	})
}

func exclusive(keys ...string) (claims []core.Claim) {
	for _, k := range keys {
		claims = append(claims, core.Exclusive(k))
	}
	return claims
}
