package core_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
)

// wantSuspended fails unless the lease was lost because the machine had slept.
func wantSuspended(t *testing.T, l *core.Lease) {
	t.Helper()
	if reason(l) != driver.LossSuspended {
		t.Errorf("cause %v", context.Cause(l.Context()))
	}
	wantOnly(t, l.Release(bg), core.ErrLeaseLost)
}

// A suspended machine: the wall clock ran ahead of the monotonic one, on which
// the timers and the deadline stood still.
func TestSuspendCountsAsTime(t *testing.T) {
	const back = -time.Hour
	for name, tc := range map[string]struct {
		jumps []time.Duration // of the wall clock, in all, 5 s apart
		lost  bool
	}{
		"slept past the lease":           {[]time.Duration{time.Minute}, true},
		"slept for a moment":             {[]time.Duration{2 * time.Second}, false},
		"wall clock set back":            {[]time.Duration{back}, false},
		"wall clock set right, ms":       {[]time.Duration{50 * time.Millisecond}, false},
		"set back, which hides no sleep": {[]time.Duration{back, back, back + time.Minute}, true},
	} {
		inBubble(t, name, func(t *testing.T) {
			wall := &core.Wall{}
			l := mustAcquire(t, newEngine(t, newSpy(), wall, core.WithTTL(30*time.Second)), "k")
			for _, jump := range tc.jumps {
				time.Sleep(5 * time.Second)
				wall.Jump(jump)
			}
			time.Sleep(1100 * time.Millisecond)
			if tc.lost {
				wantSuspended(t, l)
				return
			}
			time.Sleep(time.Minute)
			mustRelease(t, l)
		})
	}
}

// Err and Release look at the clocks themselves: right after waking, before
// the watchdog has run.
func TestErrDoesNotWaitForTheWatchdog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wall := &core.Wall{}
		eng := newEngine(t, newSpy(), wall, core.WithTTL(30*time.Second))
		l, other := mustAcquire(t, eng, "k"), mustAcquire(t, eng, "other")
		wall.Jump(time.Minute)
		wantOnly(t, l.Err(), core.ErrLeaseLost)
		wantOnly(t, other.Release(bg), core.ErrLeaseLost)
		wantSuspended(t, l)
	})
}

// A machine that slept between request and answer: the backend's time went on,
// and the lease is over although the answer says otherwise.
func TestSuspendedBetweenRequestAndAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wall := &core.Wall{}
		store := &late{newSpy(), func() { time.Sleep(time.Millisecond); wall.Jump(time.Minute) }}
		eng := newEngine(t, store, wall, core.WithTTL(30*time.Second))
		_, err := eng.Acquire(bg, "k")
		wantOnly(t, err, core.ErrUnavailable)
		store.then = func() {}
		store.onRenew = func(context.Context, driver.Grant) error {
			time.Sleep(time.Millisecond)
			wall.Jump(2 * time.Minute)
			return nil
		}
		l := mustAcquire(t, eng, "other")
		time.Sleep(11 * time.Second)
		wantSuspended(t, l)
	})
}

// A caller that slept while it waited, and was granted after that, is fine.
func TestSuspendedBeforeTheGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wall := &core.Wall{}
		eng := newEngine(t, newSpy(), wall, core.WithTTL(30*time.Second), core.WithMaxHold(core.Forever))
		holder := mustAcquire(t, eng, "k")
		time.AfterFunc(time.Second, func() { wall.Jump(time.Minute) })
		next := mustAcquire(t, eng, "k", core.WithMaxWait(time.Minute))
		time.Sleep(time.Minute)
		mustRelease(t, next)
		wantSuspended(t, holder)
	})
}

// The clocks are looked at once a second from the first lease on, however long the
// watchdog had nothing to do, and however late its renewal is due.
func TestSuspensionIsNoticedAfterAnIdleTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wall := &core.Wall{}
		eng := newEngine(t, newSpy(), wall, core.WithTTL(24*time.Hour), core.WithMaxHold(core.Forever))
		mustRelease(t, mustAcquire(t, eng, "k"))
		time.Sleep(10 * time.Second)
		l := mustAcquire(t, eng, "k")
		wall.Jump(25 * time.Hour)
		time.Sleep(time.Second + time.Millisecond)
		wantSuspended(t, l)
	})
}
