package core_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/memstore"
)

func TestReleaseIsIdempotent(t *testing.T) {
	spy, eng := newSpied(t)
	l := mustAcquire(t, eng, "k")
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { mustRelease(t, l) })
	}
	all.Wait()
	wantEqual(t, "releases", len(spy.released), 1)
	next := mustAcquire(t, eng, "k")
	mustRelease(t, l) // must not touch the next one's
	check(t, next.Err() == nil, "next: %v", next.Err())
	mustRelease(t, next)
}

// A client that hangs up cancels the request's context; the lock must not stay
// behind for its TTL. (open-match#1578, blnk#355)
func TestReleaseGoesOnWhenTheCallerIsGone(t *testing.T) {
	spy, eng := newSpied(t)
	spy.onRelease = func(ctx context.Context, _ driver.Grant) error { return ctx.Err() }
	ctx, cancel := context.WithCancel(bg)
	l := acquireIn(t, ctx, eng, "k")
	cancel()
	wantNil(t, l.Release(ctx))
}

// The bound is each caller's own, also when they queue up, and when the one ahead is in a store that knows no
// bounds.
func TestReleaseIsBounded(t *testing.T) {
	const bound = 2 * time.Second
	for name, tc := range map[string]struct {
		store func(context.Context, driver.Grant) error
		first error
	}{
		"the store hangs":           {func(ctx context.Context, _ driver.Grant) error { <-ctx.Done(); return ctx.Err() }, core.ErrOutcomeUnknown},
		"the store knows no bounds": {func(context.Context, driver.Grant) error { time.Sleep(5 * bound); return nil }, nil},
	} {
		inBubble(t, name, func(t *testing.T) {
			spy := newSpy()
			l := mustAcquire(t, newEngine(t, spy, core.WithReleaseTimeout(bound)), "k")
			spy.onRelease = tc.store
			var first, others sync.WaitGroup
			first.Go(func() {
				err := l.Release(bg)
				check(t, errors.Is(err, tc.first), "the first: %v", err)
			})
			synctest.Wait()
			began := time.Now()
			for range 10 {
				others.Go(func() { wantOnly(t, l.Release(bg), core.ErrOutcomeUnknown) })
			}
			others.Wait()
			wantTook(t, began, bound)
			first.Wait()
			spy.mend()
		})
	}
}

// After an unanswered release, a repeat that finds the key not ours means that
// the first one did it.
func TestUnknownReleaseMayBeRepeated(t *testing.T) {
	for name, reached := range map[string]bool{"the first attempt arrived": true, "it did not": false} {
		t.Run(name, func(t *testing.T) {
			spy, eng := newSpied(t)
			l := mustAcquire(t, eng, "k")
			spy.onRelease = func(ctx context.Context, g driver.Grant) error {
				if reached {
					_ = spy.Store.Release(ctx, g)
				}
				return errDown
			}
			wantOnly(t, l.Release(bg), core.ErrOutcomeUnknown, core.ErrUnavailable)
			spy.mend()
			mustRelease(t, l)
			mustRelease(t, l)
			isFree(t, eng, "k")
		})
	}
}

func TestReleaseOfALostLeaseSaysSo(t *testing.T) {
	spy, eng := newSpied(t)
	l := mustAcquire(t, eng, "k")
	breakLock(t, spy, l)
	err := l.Release(bg)
	for _, err := range []error{err, l.Release(bg), l.Err()} {
		wantOnly(t, err, core.ErrLeaseLost)
	}
	if lost := (*core.LeaseLostError)(nil); !errors.As(err, &lost) || lost.Reason != driver.LossTaken || lost.Key != "k" || lost.Token != l.Token() {
		t.Errorf("details: %+v", lost)
	}
}

// In an outage the holder of a lost lease does not wait for the release timeout, which
// would be for nothing: the engine tells the store in the background.
func TestReleaseOfAnExpiredLeaseDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy := newSpy()
		spy.onRenew = func(context.Context, driver.Grant) error { return errDown }
		asked := make(chan struct{})
		spy.onRelease = func(context.Context, driver.Grant) error {
			time.Sleep(time.Second)
			close(asked)
			return nil
		}
		eng := newEngine(t, spy)
		l := mustAcquire(t, eng, "k")
		<-l.Context().Done()
		began := time.Now()
		wantOnly(t, l.Release(bg), core.ErrLeaseLost)
		wantTook(t, began, 0)
		<-asked
	})
}

// Without cancel on loss, the context goes on until the release. What is left of the lease at the store,
// as after max hold, goes only then.
func TestWithoutCancelOnLoss(t *testing.T) {
	for name, lose := range map[string]func(*testing.T, *spy, *core.Lease){
		"taken":    breakLock,
		"max hold": func(*testing.T, *spy, *core.Lease) {},
	} {
		inBubble(t, name, func(t *testing.T) {
			spy, eng := newSpied(t, core.WithMaxHold(10*time.Second))
			l := mustAcquire(t, eng, "k", core.WithoutCancelOnLoss())
			lose(t, spy, l)
			time.Sleep(defaultTTL)
			wantOnly(t, l.Err(), core.ErrLeaseLost)
			check(t, l.Context().Err() == nil, "the context ended with the loss")
			spy.onRelease = func(context.Context, driver.Grant) error {
				check(t, l.Context().Err() != nil, "the next one is let in while this one's context is alive")
				return nil
			}
			wantOnly(t, l.Release(bg), core.ErrLeaseLost)
			check(t, l.Context().Err() != nil, "the context outlives the release")
			told := len(spy.released)
			check(t, told == 1 || name != "max hold", "the store was told %d times", told)
		})
	}
}

// A lease's context has its parent's deadline and values, and so has what descends from it. It ends with
// its parent, which does not end the lease.
func TestLeaseContext(t *testing.T) {
	type key struct{}
	eng := newEngine(t, memstore.New())
	deadline := time.Now().Add(time.Hour)
	parent, cancel := context.WithDeadline(context.WithValue(bg, key{}, "v"), deadline)
	defer cancel()
	l := acquireIn(t, parent, eng, "k")
	below, stop := context.WithCancel(l.Context())
	defer stop()
	for _, ctx := range []context.Context{l.Context(), below} {
		at, _ := ctx.Deadline()
		got, _ := core.LeaseFrom(ctx)
		check(t, got == l && at.Equal(deadline) && ctx.Value(key{}) == "v" && ctx.Err() == nil, "lease %v, deadline %v, value %v, %v", got, at, ctx.Value(key{}), ctx.Err())
	}
	if _, ok := core.LeaseFrom(parent); ok {
		t.Error("a lease where there is none")
	}
	wantEqual(t, "printed", fmt.Sprint(l.Context()), "keyturn.Lease")
	ended := make(chan struct{})
	context.AfterFunc(below, func() { close(ended) })
	cancel()
	<-ended
	check(t, l.Err() == nil && !isDone(l), "the lease ended with its context: %v", l.Err())
	wantOnly(t, errOf(eng.TryAcquire(bg, "k")), core.ErrHeld)
	mustRelease(t, l)
}

// A lease's context ends once, with whatever ended it first, whether somebody
// looked at it before that, or not until long after.
func TestLeaseContextEndsOnce(t *testing.T) {
	errOwn := errors.New("the caller's reason")
	for want, cancelled := range map[error]bool{core.ErrReleased: false, errOwn: true} {
		for _, looked := range []bool{true, false} {
			eng := newEngine(t, memstore.New())
			parent, cancel := context.WithCancelCause(bg)
			l := acquireIn(t, parent, eng, "k")
			ctx := l.Context()
			if looked && ctx.Done() == nil || ctx.Err() != nil {
				t.Error("over before its end:", ctx.Err())
			}
			if cancelled {
				cancel(errOwn)
			}
			mustRelease(t, l)
			cancel(errOwn)
			below, stop := context.WithCancel(ctx)
			for _, c := range []context.Context{ctx, below} {
				<-c.Done()
				check(t, errors.Is(c.Err(), context.Canceled) && errors.Is(context.Cause(c), want), "looked at before: %v: err %v, cause %v; want %v", looked, c.Err(), context.Cause(c), want)
			}
			stop()
		}
	}
}
