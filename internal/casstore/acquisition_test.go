package casstore_test

import (
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/casstore"
	"github.com/keyturn/keyturn/internal/keystate"
)

// TestWhenToAskAgain although no message comes: a holder may be dead, and so may the first in the queue.
func TestWhenToAskAgain(t *testing.T) {
	one, two := []driver.Claim{driver.Exclusive("a")}, []driver.Claim{driver.Exclusive("a"), driver.Exclusive("b")}
	for name, c := range map[string]struct {
		claims         []driver.Claim
		held           driver.HeldError
		notice         time.Duration
		within, change time.Duration
	}{
		"the first in the queue":              {one, driver.HeldError{RetryAfter: 9 * time.Second}, time.Second, 5 * time.Second, 9 * time.Second},
		"behind the first":                    {one, driver.HeldError{RetryAfter: 9 * time.Second, Ahead: 1}, time.Second, 5 * time.Second, 10 * time.Second},
		"behind the first, who is looked for": {one, driver.HeldError{RetryAfter: 9 * time.Second, Ahead: 1}, 0, 5 * time.Second, -1},
		"only the backend knows the end":      {one, driver.HeldError{}, time.Second, 5 * time.Second, -1},
		"a set keeps what it holds":           {two, driver.HeldError{RetryAfter: 9 * time.Second}, 0, 2 * time.Second, 9 * time.Second},
	} {
		a := &casstore.Acquisition{Within: 5 * time.Second, Notice: c.notice}
		a.Claims, a.TTL = c.claims, 6*time.Second
		got := a.Answer(keystate.Answer{Held: &c.held}, time.Time{}).Held
		for _, l := range []bool{true, false} { // only its engine knows since when its present user has had a lease that lingers
			check(t, (a.Answer(keystate.Answer{Held: &c.held, Lingers: l}, time.Time{}).Held.Held.HeldFor > 0) == !l, "lingers %v", l)
		}
		check(t, got.Within == c.within && got.Changes[0] == c.change && got.Changes[1] < 0, "%s: within %v, at %v", name, got.Within, got.Changes)
	}
}
