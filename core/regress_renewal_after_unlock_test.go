package core_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
)

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
				if n := spy.renewals(); n != 1 {
					t.Errorf("%d renewals", n)
				}
				if !errors.Is(l.Err(), core.ErrReleased) || context.Cause(l.Context()) != core.ErrReleased {
					t.Errorf("Err %v, cause %v", l.Err(), context.Cause(l.Context()))
				}
				if len(ends) != 1 || ends[0] != nil {
					t.Errorf("HoldEnd was told %v", ends)
				}
			})
		}
	}
}
