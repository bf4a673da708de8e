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

// A set of which the context holds a part.
func TestSetThatIsHeldInPart(t *testing.T) {
	store, eng := newSpied(t)
	outer := mustAcquire(t, eng, "b")
	set, err := eng.AcquireAll(outer.Context(), exclusive("c", "b", "a"), core.WithTTL(time.Hour))
	must(t, err)
	if c := set.Claims(); len(c) != 2 || c[0].Key != "a" || c[1].Key != "c" || set.Token() == outer.Token() || core.Observed(set).Depth() != 1 {
		t.Errorf("claims %v, token %d in %d, depth %d", c, set.Token(), outer.Token(), core.Observed(set).Depth())
	}
	for _, key := range []string{"a", "b", "c"} {
		wantNil(t, core.AssertHeld(set.Context(), core.Exclusive(key)))
	}
	all, err := eng.AcquireAll(set.Context(), exclusive("a", "b", "c")) // by two leases
	must(t, err)
	if store.requests() != 2 || core.Observed(all).Depth() != 2 || all.Token() != set.Token() || len(all.Claims()) != 2 {
		t.Errorf("asked %d times; depth %d, claims %v", store.requests(), core.Observed(all).Depth(), all.Claims())
	}
	check(t, set.TTL() == outer.TTL() && all.TTL() == outer.TTL(), "TTLs %v and %v, want the shortest, %v", set.TTL(), all.TTL(), outer.TTL())
	check(t, set.Deadline().Equal(outer.Deadline()) && all.Deadline().Equal(outer.Deadline()), "deadlines %v and %v, want the first, %v", set.Deadline(), all.Deadline(), outer.Deadline())
	mustRelease(t, all)
	mustRelease(t, set)
	mustRelease(t, set)
	check(t, outer.Err() == nil && store.releases() == 1, "outer: %v; %d releases", outer.Err(), store.releases())

	err = eng.DoAll(outer.Context(), exclusive("a", "b"), func(ctx context.Context) error {
		l, _ := core.LeaseFrom(ctx)
		work, cancel := l.Attach(bg)
		defer cancel()
		mustRelease(t, outer)
		wantIs(t, "work under both", context.Cause(work), core.ErrReleased)
		return nil
	})
	lost := (*core.LeaseLostError)(nil)
	check(t, errors.As(err, &lost) && lost.Key == "b" && lost.Reason == driver.LossOuter, "the part that it left to another was lost: %v", err)
	check(t, store.releases() == 3 && eng.Left() == "", "%d releases; left: %s", store.releases(), eng.Left())
}

// The rest is lost or not certainly released: that is for the set's lease to say.
func TestSetTellsHowItsRestEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy, eng := newSpied(t)
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

// A context with a lease attached is not the request's of the lease, and has what it held before as well.
func TestAttach(t *testing.T) {
	spy, eng := newSpied(t)
	request, hangUp := context.WithCancel(bg)
	l := acquireIn(t, request, eng, "a")
	other := mustAcquire(t, eng, "b")
	parent, end := context.WithCancel(other.Context())
	one, cancelOne := l.Attach(parent)
	two, cancelTwo := l.Attach(parent)
	defer cancelTwo()
	deep, cancelDeep := within(t, eng, l).Attach(parent)
	defer cancelDeep()
	deepest, err := eng.AcquireAll(deep, exclusive("a", "b"))
	check(t, err == nil && core.Observed(deepest).Depth() == 3, "depth %d, %v", core.Observed(deepest).Depth(), err)
	hangUp()
	cancelOne()
	got, _ := core.LeaseFrom(two)
	check(t, got == l && two.Err() == nil && errors.Is(context.Cause(one), context.Canceled), "lease %v, %v; the other one: %v", got, two.Err(), context.Cause(one))
	both, err := eng.AcquireAll(two, exclusive("a", "b"))
	must(t, err)
	check(t, core.Observed(both).Depth() == 2 && spy.requests() == 2, "asked %d times", spy.requests())
	mustRelease(t, both)
	mustRelease(t, l)
	wantNil(t, core.AssertHeld(context.WithoutCancel(two), core.Exclusive("b")))
	wantOnly(t, core.AssertHeld(two, core.Exclusive("a")), core.ErrReleased)
	third, cancelThird := other.Attach(parent)
	defer cancelThird()
	end()
	wantIs(t, "the end of its parent", context.Cause(third), context.Canceled)
	mustRelease(t, other)
}

// An attached context ends with its lease, also with a nested one, and is ended from the start if that has ended.
func TestAttachedContextEndsWithItsLease(t *testing.T) {
	for name, tc := range map[string]struct {
		opts   []core.CallOption
		nested bool
		lost   bool
		cause  error
		held   error // what AssertHeld says
	}{
		"released":               {cause: core.ErrReleased, held: core.ErrReleased},
		"lost":                   {lost: true, cause: core.ErrLeaseLost, held: core.ErrLeaseLost},
		"the outer one released": {nested: true, cause: core.ErrReleased, held: core.ErrLeaseLost},
		// Then it ends with its own parent.
		"lost without a cancel": {[]core.CallOption{core.WithoutCancelOnLoss()}, false, true, context.DeadlineExceeded, core.ErrLeaseLost},
	} {
		inBubble(t, name, func(t *testing.T) {
			spy, eng := newSpied(t)
			outer := mustAcquire(t, eng, "k", tc.opts...)
			l := outer
			if tc.nested {
				l = within(t, eng, outer)
			}
			var all sync.WaitGroup
			for range 50 {
				all.Go(func() {
					ctx, cancel := l.Attach(callerFor(t, time.Hour, 0))
					defer cancel()
					<-ctx.Done()
					wantIs(t, "cause", context.Cause(ctx), tc.cause)
					wantOnly(t, core.AssertHeld(ctx, core.Exclusive("k")), tc.held)
				})
			}
			synctest.Wait()
			if tc.lost {
				breakLock(t, spy, outer)
			} else {
				mustRelease(t, outer)
			}
			all.Wait()
			_ = outer.Release(bg)
			late, cancel := l.Attach(bg)
			defer cancel()
			check(t, late.Err() != nil, "attached to a lease that has ended")
		})
	}
}
