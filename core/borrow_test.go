package core_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/experimental/carry"
)

// wantLost fails unless err is a loss for that reason.
func wantLost(t *testing.T, err error, why driver.LossReason) {
	t.Helper()
	var lost *core.LeaseLostError
	check(t, errors.As(err, &lost) && lost.Reason == why, "%v, want a loss: %s", err, why)
}

// The callee learns by its own renewals that the caller is through.
func TestBorrowedEndsWithItsHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 9 * time.Second
		two := callerHolds(t, exclusive("k"), core.WithTTL(ttl))
		l := acquireIn(t, two.ctx, two.callee, "k")
		time.Sleep(time.Minute)
		must(t, errors.Join(l.Err(), two.outer.Err()))
		mustRelease(t, two.outer)
		thief := mustAcquire(t, two.caller, "k")
		time.Sleep(ttl/3 + time.Second)
		for _, err := range []error{l.Err(), context.Cause(l.Context()), l.Release(bg)} {
			wantLost(t, err, driver.LossOuter)
		}
		mustRelease(t, thief)
	})
}

// A caller that does not get to renew, as in a pause, loses its lease for
// itself; the work that it asked for goes on under the lock.
func TestBorrowedKeepsTheKeyForAPausedCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		caller := newSpy()
		caller.onRenew = func(context.Context, driver.Grant) error { return errDown }
		callee, third := newEngine(t, caller.Peer()), newEngine(t, caller.Peer())
		outer := mustAcquire(t, newEngine(t, caller), "k", core.WithTTL(time.Second))
		wantNil(t, callee.Do(carry.Accept(bg, carry.Leases(outer.Context())), "k", func(ctx context.Context) error {
			time.Sleep(time.Minute)
			wantOnly(t, errOf(third.TryAcquire(bg, "k")), core.ErrHeld)
			return ctx.Err()
		}))
		wantOnly(t, outer.Release(bg), core.ErrLeaseLost)
		time.Sleep(time.Second) // nobody renews it now
		isFree(t, third, "k")
	})
}

// If anything except the holder ends the callee's part, the holder's part goes on.
func TestBorrowedIsNotReleasedHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		two := callerHolds(t, exclusive("k"))
		l := acquireIn(t, two.ctx, two.callee, "k", core.WithMaxHold(time.Second))
		time.Sleep(2 * time.Second)
		wantLost(t, l.Release(bg), driver.LossMaxHold)
		callee := open(t, two.spy.Peer())
		l = acquireIn(t, two.ctx, callee, "k")
		wantOnly(t, callee.Close(callerFor(t, 0, -1)), context.Canceled)
		wantLost(t, l.Err(), driver.LossClosed)
		wantOnly(t, errOf(two.callee.TryAcquire(bg, "k")), core.ErrHeld)
		mustRelease(t, two.outer)
	})
}

// A callee that can't find out whether the lease is in force does not run under it, and does not wait for ever.
func TestVerifyingInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		two := callerHolds(t, exclusive("k"))
		leaving, cancel := context.WithCancel(two.ctx)
		time.AfterFunc(3*time.Second, cancel)
		hang := func(ctx context.Context, _ driver.Grant) error { <-ctx.Done(); return ctx.Err() }
		for _, tc := range []struct {
			ctx   context.Context
			store func(context.Context, driver.Grant) error
			want  error
			took  time.Duration
		}{
			{two.ctx, func(context.Context, driver.Grant) error { return errors.New("something else") }, core.ErrUnavailable, 0},
			{two.ctx, hang, core.ErrUnavailable, 2 * time.Second},
			{leaving, hang, context.Canceled, time.Second},
		} {
			two.spy.onRenew = tc.store
			began := time.Now()
			wantOnly(t, errOf(two.callee.Acquire(tc.ctx, "k")), tc.want)
			wantTook(t, began, tc.took)
		}
		ran := false
		err := two.callee.Do(two.ctx, "k", func(context.Context) error { ran = true; return nil }, core.WithRunUnlocked())
		check(t, err == nil && ran, "ran %v, %v", ran, err)
		// The store has no such leases: a text that is forged, or of another store, is no outage.
		for _, err := range []error{&driver.OptionError{}, &driver.UnsupportedError{}, &driver.ClaimError{}} {
			two.spy.onRenew = func(context.Context, driver.Grant) error { return err }
			wantOnly(t, errOf(two.callee.TryAcquire(two.ctx, "k")), core.ErrHeld)
		}
		o := &outage{two.spy}
		trip(t, two.callee, o)
		two.spy.onRenew = hang
		began := time.Now()
		wantOnly(t, errOf(two.callee.Acquire(two.ctx, "k")), core.ErrUnavailable, core.ErrCircuitOpen)
		wantTook(t, began, 0)
		o.mend()
		two.spy.onRenew = nil
		mustRelease(t, two.outer)
	})
}

// A set can be of several leases of the caller's, and of none.
func TestSetBorrowedInPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		two := callerHolds(t, exclusive("b", "d"))
		other := mustAcquire(t, two.caller, "a")
		both, cancel := other.Attach(two.outer.Context())
		defer cancel()
		ctx := carry.Accept(bg, carry.Leases(both))
		set, err := two.callee.AcquireAll(ctx, exclusive("a", "b", "c"))
		must(t, err)
		if c := set.Claims(); len(c) != 1 || c[0].Key != "c" || core.Observed(set).Depth() != 1 || two.spy.renewals() != 1 {
			t.Errorf("%v, depth %d, asked %d times", c, core.Observed(set).Depth(), two.spy.renewals())
		}
		for _, key := range []string{"a", "b", "c"} {
			wantNil(t, core.AssertHeld(set.Context(), core.Exclusive(key)))
		}
		mustRelease(t, set)
		check(t, two.callee.Left() == "" && len(two.spy.released) == 1, "left: %s; released %v", two.callee.Left(), two.spy.released)

		// Borrowed leases go back when the rest of the set is not available,
		stranger := mustAcquire(t, two.caller, "c")
		wantOnly(t, errOf(two.callee.AcquireAll(ctx, exclusive("a", "c"), core.WithMaxWait(time.Second))), core.ErrHeld, core.ErrWaitTimeout)
		wantOnly(t, errOf(two.callee.AcquireAll(ctx, exclusive("a", "c"), core.WithFailFast())), core.ErrHeld)
		// and nobody waits on for what has been lost.
		time.AfterFunc(time.Second, func() { mustRelease(t, other) })
		wantOnly(t, errOf(two.callee.AcquireAll(ctx, exclusive("a", "c"), core.WithMaxWait(time.Hour))), core.ErrLeaseLost)
		wantNothingLeft(t, two.callee)
		mustRelease(t, stranger)
		mustRelease(t, two.outer)
	})
}

// A store that panics leaves nothing borrowed.
func TestBorrowedAndAPanic(t *testing.T) {
	two := callerHolds(t, exclusive("a"))
	defer mustRelease(t, two.outer)
	two.spy.onAcquire = func(context.Context, driver.Request) error { panic("store") }
	defer func() {
		check(t, recover() != nil, "no panic")
		wantNothingLeft(t, two.callee)
	}()
	_, _ = two.callee.AcquireAll(two.ctx, exclusive("a", "b"))
}
