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
	"github.com/keyturn/keyturn/core/internal/watchdog"
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
		want := []time.Duration{100 * time.Millisecond, 100 * time.Millisecond}
		check(t, slices.Equal(bounds, want), "bounds %v", bounds)
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
				check(t, errors.Is(l.Err(), core.ErrReleased) && context.Cause(l.Context()) == core.ErrReleased, "Err %v, cause %v", l.Err(), context.Cause(l.Context()))
				check(t, len(ends) == 1 && ends[0] == nil, "HoldEnd was told %v", ends)
			})
		}
	}
}

const firstTerm = 3 * time.Second

// brief is a store that gives every lease firstTerm, counted from a while ago, until
// it is renewed.
type brief struct {
	*spy
	age  time.Duration
	then func() // after each grant
}

func (s brief) Acquire(ctx context.Context, req driver.Request) (driver.Grant, error) {
	ttl := req.TTL
	req.TTL = firstTerm - s.age
	g, err := s.spy.Acquire(ctx, req)
	if err == nil {
		g.Term, g.Since = firstTerm, time.Now().Add(-s.age)
	}
	g.TTL = ttl
	if s.then != nil {
		s.then()
	}
	return g, err
}

// leftOf is how long the lease has, and goes by the margin for a term.
func leftOf(l *core.Lease, term time.Duration) time.Duration {
	return time.Until(l.Deadline()) + watchdog.Margin(term)
}

// A lease with a short first term is renewed a moment after the grant, and then as
// any other.
func TestFirstTermIsRenewedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := brief{spy: newSpy(), age: 2 * time.Second}
		eng := newEngine(t, store, core.WithTTL(30*time.Second))
		start := time.Now()
		l := mustAcquire(t, eng, "k")
		if got := leftOf(l, firstTerm); got != time.Second || l.TTL() != 30*time.Second {
			t.Errorf("%v are left of the first term, 1s expected; the TTL is %v", got, l.TTL())
		}
		time.Sleep(5 * time.Millisecond)
		wantEqual(t, "renewals of a lease that could be over by now", store.renewals(), 0)
		time.Sleep(6 * time.Millisecond)
		wantEqual(t, "left after the renewal", leftOf(l, 30*time.Second), 30*time.Second-time.Millisecond)
		time.Sleep(15 * time.Second)
		mustRelease(t, l)
		got := since(start, store.renewedAt)
		check(t, len(got) == 2 && got[0] == 10*time.Millisecond && got[1] == 10*time.Second+10*time.Millisecond, "renewed at %v", got)
	})
}

// The first renewal does not wait where hardly anything is left of the term, and one that fails is tried again while the
// term lasts. When that is over the lease is, whatever its TTL.
func TestFirstRenewalIsInTime(t *testing.T) {
	short := firstTerm - watchdog.Margin(firstTerm)
	out := func(context.Context, int) error { return errDown }
	for name, tc := range map[string]struct {
		age, held time.Duration
		renew     func(ctx context.Context, tries int) error
		tries     int
		want      driver.LossReason
	}{
		"the term is almost over": {age: short - 12*time.Millisecond, held: 5 * time.Millisecond, tries: 1},
		"the store hangs": {age: 2 * time.Second, held: 5 * time.Second, tries: 2, renew: func(ctx context.Context, tries int) error {
			if tries > 1 {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}},
		// At 10 ms, and every tenth of the term.
		"the store is out":         {age: time.Second, held: short - time.Second, renew: out, tries: 7, want: driver.LossExpired},
		"it is, and there is time": {age: time.Second, held: short - time.Second - 1, renew: out, tries: 7},
	} {
		inBubble(t, name, func(t *testing.T) {
			store := brief{spy: newSpy(), age: tc.age}
			store.onRenew = func(ctx context.Context, _ driver.Grant) error {
				if tc.renew == nil {
					return nil
				}
				return tc.renew(ctx, store.renewals())
			}
			l := mustAcquire(t, newEngine(t, store, core.WithTTL(30*time.Second)), "k")
			time.Sleep(tc.held)
			synctest.Wait()
			wantEqual(t, "tries", store.renewals(), tc.tries)
			wantEqual(t, "lost", reason(l), tc.want)
			wantIs(t, "Release", l.Release(bg), map[bool]error{true: core.ErrLeaseLost}[tc.want != ""])
		})
	}
}
