package core_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
)

// A suspended machine: the wall clock ran ahead of the monotonic one, on which
// the timers and the deadline stood still.
func TestSuspendCountsAsTime(t *testing.T) {
	for name, tc := range map[string]struct {
		jump time.Duration
		lost bool
	}{
		"slept past the lease":     {time.Minute, true},
		"slept for a moment":       {2 * time.Second, false},
		"wall clock set back":      {-time.Hour, false},
		"wall clock set right, ms": {50 * time.Millisecond, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				wall := &core.Wall{}
				eng := newEngine(t, newSpy(), wall, core.WithTTL(30*time.Second))
				l := mustAcquire(t, eng, "k")
				time.Sleep(5 * time.Second)
				wall.Jump(tc.jump)
				woke := time.Now()
				if tc.lost {
					<-l.Context().Done()
					if took := time.Since(woke); took > time.Second {
						t.Errorf("noticed after %v", took)
					}
					if reason(l) != driver.LossSuspended {
						t.Errorf("cause %v", context.Cause(l.Context()))
					}
					wantOnly(t, l.Release(context.Background()), core.ErrLeaseLost)
					return
				}
				time.Sleep(time.Minute)
				if l.Err() != nil {
					t.Errorf("lost: %v", l.Err())
				}
				mustRelease(t, l)
			})
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
		if reason(l) != driver.LossSuspended {
			t.Errorf("cause %v", context.Cause(l.Context()))
		}
		wantOnly(t, other.Release(context.Background()), core.ErrLeaseLost)
		_ = l.Release(context.Background())
	})
}

// A machine that slept between request and answer: the backend's time went on,
// and the lease is over although the answer says otherwise.
func TestSuspendedBetweenRequestAndAnswer(t *testing.T) {
	t.Run("acquire", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := &afterAcquire{spy: newSpy()}
			wall := &core.Wall{}
			eng := newEngine(t, store, wall, core.WithTTL(30*time.Second))
			store.then = func() { wall.Jump(time.Minute) }
			_, err := eng.Acquire(context.Background(), "k")
			wantOnly(t, err, core.ErrUnavailable)
		})
	})
	t.Run("renew", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			spy := newSpy()
			wall := &core.Wall{}
			eng := newEngine(t, spy, wall, core.WithTTL(30*time.Second))
			spy.onRenew = func(context.Context, driver.Grant) error {
				time.Sleep(time.Millisecond)
				wall.Jump(time.Minute)
				return nil
			}
			l := mustAcquire(t, eng, "k")
			time.Sleep(11 * time.Second)
			if reason(l) != driver.LossSuspended {
				t.Errorf("cause %v", context.Cause(l.Context()))
			}
			wantOnly(t, l.Release(context.Background()), core.ErrLeaseLost)
		})
	})
	// One that slept while it waited, and was granted after that, is fine.
	t.Run("before the grant", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			wall := &core.Wall{}
			eng := newEngine(t, newSpy(), wall, core.WithTTL(30*time.Second), core.WithMaxHold(core.Forever))
			holder := mustAcquire(t, eng, "k")
			time.AfterFunc(time.Second, func() { wall.Jump(time.Minute) })
			next := mustAcquire(t, eng, "k", core.WithMaxWait(time.Minute))
			time.Sleep(time.Minute)
			if next.Err() != nil {
				t.Errorf("lost: %v", next.Err())
			}
			mustRelease(t, next)
			wantOnly(t, holder.Release(context.Background()), core.ErrLeaseLost)
		})
	})
}

// afterAcquire is a store after whose grants something happens.
type afterAcquire struct {
	*spy
	then func()
}

func (s *afterAcquire) Acquire(ctx context.Context, req driver.Request) (driver.Grant, error) {
	g, err := s.spy.Acquire(ctx, req)
	time.Sleep(time.Millisecond)
	s.then()
	return g, err
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
		wantOnly(t, context.Cause(l.Context()), core.ErrLeaseLost)
		_ = l.Release(context.Background())
	})
}
