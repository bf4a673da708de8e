package core_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
)

// start is when a bubble's clock begins; offsets are counted from it.
func since(start time.Time, at []time.Time) (out []time.Duration) {
	for _, t := range at {
		out = append(out, t.Sub(start))
	}
	return out
}

// One lease's failed renewal is that lease's alone. (redisson#3194, #2515)
func TestRenewalFailuresAreIsolated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy, eng := newSpied(t, core.WithTTL(30*time.Second))
		spy.onRenew = func(_ context.Context, g driver.Grant) error {
			switch g.Claims[0].Key {
			case "taken":
				return &core.LeaseLostError{Key: "taken", Reason: driver.LossTaken}
			case "failing":
				return errDown
			}
			return nil
		}
		taken, failing, good := mustAcquire(t, eng, "taken"), mustAcquire(t, eng, "failing"), mustAcquire(t, eng, "good")
		time.Sleep(11 * time.Second)
		check(t, reason(taken) == driver.LossTaken, "a definite no is a loss at once: %v", taken.Err())
		check(t, failing.Err() == nil, "an error within the TTL is no loss yet: %v", failing.Err())
		time.Sleep(time.Minute)
		check(t, reason(failing) == driver.LossExpired, "failing: %v", failing.Err())
		check(t, good.Err() == nil, "good: %v", good.Err())
		mustRelease(t, good)
		wantOnly(t, failing.Release(bg), core.ErrLeaseLost)
		wantOnly(t, taken.Release(bg), core.ErrLeaseLost)
	})
}

// A hanging renewal of one lease does not keep the others from being renewed
// or declared lost in time.
func TestHangingRenewalHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy, eng := newSpied(t, core.WithMaxHold(core.Forever))
		spy.onRenew = func(ctx context.Context, g driver.Grant) error {
			if g.Claims[0].Key == "hangs" {
				<-ctx.Done()
				return errDown
			}
			return nil
		}
		hangs := mustAcquire(t, eng, "hangs", core.WithTTL(time.Hour))
		short := mustAcquire(t, eng, "short", core.WithTTL(time.Second))
		time.Sleep(30 * time.Minute)
		check(t, short.Err() == nil, "short: %v", short.Err())
		mustRelease(t, short)
		mustRelease(t, hangs)
	})
}

// A store that answers for fewer leases than it was asked about has not said
// that the others are lost, nor that they are good.
func TestMissingAnswersAreNoAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng := newEngine(t, mute{newSpy()}, core.WithTTL(10*time.Second))
		l := mustAcquire(t, eng, "k")
		time.Sleep(5 * time.Second)
		check(t, l.Err() == nil, "lost too early: %v", l.Err())
		time.Sleep(5 * time.Second)
		check(t, reason(l) == driver.LossExpired, "cause %v", context.Cause(l.Context()))
		_ = l.Release(bg)
	})
}

// mute never answers a renewal.
type mute struct{ *spy }

// A batch is bounded by the shortest TTL in it, whichever is due first.
func TestBatchHasTheTimeOfItsShortest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy := newSpy()
		var bounds []time.Duration
		spy.onRenew = func(ctx context.Context, _ driver.Grant) error {
			end, _ := ctx.Deadline()
			bounds = append(bounds, time.Until(end))
			return nil
		}
		eng := newEngine(t, spy)
		long := mustAcquire(t, eng, "long", core.WithTTL(480*time.Millisecond)) // due at 160ms
		time.Sleep(90 * time.Millisecond)
		short := mustAcquire(t, eng, "short", core.WithTTL(300*time.Millisecond)) // due at 190ms
		time.Sleep(80 * time.Millisecond)
		mustRelease(t, short)
		mustRelease(t, long)
		if want := []time.Duration{100 * time.Millisecond, 100 * time.Millisecond}; !slices.Equal(bounds, want) {
			t.Errorf("bounds %v", bounds)
		}
	})
}

// redisson#7272, redisson#2714: renewal went on after the unlock. Here the lease
// is released while a renewal of it is under way, whose answer comes during the
// release or after it: it says nothing about the lease any more.
func TestRenewalUnderWayAtTheRelease(t *testing.T) {
	for name, said := range map[string]error{
		"renewed": nil,
		"failed":  errDown,
		"lost":    &core.LeaseLostError{Reason: driver.LossTaken}, // as it must be, once released
	} {
		for when, release := range map[string]time.Duration{"during": 200 * time.Millisecond, "after": 0} {
			inBubble(t, name+" "+when, func(t *testing.T) {
				var ends []error
				spy := newSpy()
				spy.onRenew = func(context.Context, driver.Grant) error { time.Sleep(100 * time.Millisecond); return said }
				spy.onRelease = func(context.Context, driver.Grant) error { time.Sleep(release); return nil }
				eng := newEngine(t, spy, core.WithTTL(3*time.Second), core.WithHooks(observe.Hooks{HoldEnd: func(_ context.Context, _ observe.Lease, err error) { ends = append(ends, err) }}))
				l := mustAcquire(t, eng, "k")
				time.Sleep(1010 * time.Millisecond) // the renewal left at 1s
				mustRelease(t, l)
				time.Sleep(time.Minute)
				wantEqual(t, "renewals", spy.renewals(), 1)
				if !errors.Is(l.Err(), core.ErrReleased) || context.Cause(l.Context()) != core.ErrReleased {
					t.Errorf("Err %v, cause %v", l.Err(), context.Cause(l.Context()))
				}
				check(t, len(ends) == 1 && ends[0] == nil, "HoldEnd was told %v", ends)
			})
		}
	}
}
