package core_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
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
		spy := newSpy()
		eng := newEngine(t, spy, core.WithTTL(30*time.Second))
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
		if reason(taken) != driver.LossTaken {
			t.Errorf("a definite no is a loss at once: %v", taken.Err())
		}
		if failing.Err() != nil {
			t.Errorf("an error within the TTL is no loss yet: %v", failing.Err())
		}
		time.Sleep(time.Minute)
		if reason(failing) != driver.LossExpired {
			t.Errorf("failing: %v", failing.Err())
		}
		if good.Err() != nil {
			t.Errorf("good: %v", good.Err())
		}
		mustRelease(t, good)
		wantOnly(t, failing.Release(bg), core.ErrLeaseLost)
		wantOnly(t, taken.Release(bg), core.ErrLeaseLost)
	})
}

// A hanging renewal of one lease does not keep the others from being renewed
// or declared lost in time.
func TestHangingRenewalHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy := newSpy()
		eng := newEngine(t, spy, core.WithMaxHold(core.Forever))
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
		if short.Err() != nil {
			t.Errorf("short: %v", short.Err())
		}
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
		if l.Err() != nil {
			t.Errorf("lost too early: %v", l.Err())
		}
		time.Sleep(5 * time.Second)
		if reason(l) != driver.LossExpired {
			t.Errorf("cause %v", context.Cause(l.Context()))
		}
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
