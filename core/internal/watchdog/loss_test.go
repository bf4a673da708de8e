package watchdog_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/watchdog"
)

func TestLoss(t *testing.T) {
	for name, tc := range map[string]struct {
		answer error
		after  time.Duration
		reason driver.LossReason
	}{
		"the store says so":   {&driver.LeaseLostError{Key: "k", Reason: driver.LossTaken}, 10 * time.Second, driver.LossTaken},
		"the store is silent": {errSilent, 30*time.Second - watchdog.Margin(30*time.Second), driver.LossExpired},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &store{answer: func(context.Context, driver.Grant) error { return tc.answer }}
				d := newDog(t, s, nil)
				h := watch(t, d, "k", 30*time.Second)
				time.Sleep(tc.after - time.Millisecond)
				if err := h.watch.Err(); err != nil || len(h.losses()) > 0 {
					t.Errorf("lost too early: %v", err)
				}
				time.Sleep(2 * time.Millisecond)
				var told *driver.LeaseLostError
				if losses := h.losses(); len(losses) != 1 || !errors.As(losses[0], &told) || told.Reason != tc.reason {
					t.Errorf("told of %v", losses)
				}
				asked, _ := s.renewed()
				time.Sleep(time.Minute)
				if again, _ := s.renewed(); again != asked || len(h.losses()) != 1 {
					t.Errorf("a minute later the store was asked %d times more, and the holder told of %v", again-asked, h.losses())
				}
				if _, err := h.watch.Release(errSilent); !errors.Is(err, driver.ErrLeaseLost) {
					t.Errorf("its release says %v", err)
				}
			})
		})
	}
}

// After the machine has slept every lease is looked at, also one behind others that are
// in force.
func TestSleepEndsAnyLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slept atomic.Int64
		d := newDog(t, &store{}, func(c *watchdog.Config) {
			c.Wall = func(at time.Time) time.Time { return at.Add(time.Duration(slept.Load())) }
		})
		short := watch(t, d, "k", 60*time.Second)
		now := time.Now()
		first := &holder{grant: driver.Grant{Owner: "first", Claims: []driver.Claim{driver.Exclusive("k")}, TTL: 10 * time.Hour, Since: now}}
		first.watch.Begin(d, first, &first.grant, now)
		first.watch.Start(now, 10*time.Second) // due for a look before the other is
		time.Sleep(1500 * time.Millisecond)
		slept.Store(int64(2 * time.Minute))
		time.Sleep(time.Second)
		var told *driver.LeaseLostError
		if losses := short.losses(); len(losses) != 1 || !errors.As(losses[0], &told) || told.Reason != driver.LossSuspended {
			t.Errorf("told of %v", losses)
		}
		if err := first.watch.Err(); err != nil {
			t.Error(err)
		}
	})
}

// A holder that finds out first, by Err, is not told again; nor is one that lets its
// lease be ended.
func TestHolderIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDog(t, &store{}, nil)
		h := watch(t, d, "k", 30*time.Second)
		if err := h.watch.Lose(h.Loss(driver.LossClosed, nil)); !errors.Is(err, driver.ErrLeaseLost) {
			t.Errorf("lost with %v", err)
		}
		time.Sleep(time.Minute)
		if n := len(h.losses()); n != 0 {
			t.Errorf("told %d times", n)
		}
	})
}
