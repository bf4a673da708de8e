package core_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
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
