package model

import (
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// TestWhoHasToTell: a request that waits behind others need not tell the holder (W2). The stores on
// etcd and ZooKeeper leave that to the first in the queue. The model once expected it of all, so a
// program failed in which the holder had been admitted with others behind it.
func TestWhoHasToTell(t *testing.T) {
	m := newBackend(Latitude{})
	ask := func(owner, key string) { m.Ask(owner, []driver.Claim{driver.Exclusive(key)}, time.Minute, true, false) }
	ask("first", "a")
	ask("second", "a")
	if got := m.told["first"]; got != mustBe {
		t.Errorf("the first in the queue: %d", got)
	}
	ask("third", "a")
	m.Release("first", []driver.Claim{driver.Exclusive("a")}, sound)
	ask("fourth", "a")
	if got := m.told["second"]; got != mayBe {
		t.Errorf("behind a request that waited when the lease was granted: %d", got)
	}
	m.Ask("hasty", []driver.Claim{driver.Exclusive("a")}, time.Minute, false, false)
	if got := m.told["second"]; got != mustBe {
		t.Errorf("a request that is refused: %d", got)
	}
}

// TestSlowAnswers: on a slow machine, a store sent the release of a lost lease twice and took the loss
// for the work of the first attempt (R2). It sent a forced release twice and could not say what it had
// done. Another took the backend for silent when a wait had ended (A8). Programs failed.
func TestSlowAnswers(t *testing.T) {
	silent := &driver.UnavailableError{Op: "acquire"}
	unknown := &driver.UnavailableError{Op: "force release", Err: driver.ErrOutcomeUnknown}
	for _, tc := range []struct {
		is   answer
		want kind
		fits bool
	}{
		{answer{kind: fine, repeated: true}, lost, true},
		{answer{kind: fine}, lost, false},
		{answer{kind: lost, repeated: true}, fine, false},
		{answer{kind: failed, err: unknown, repeated: true}, fine, true},
		{answer{kind: failed, err: unknown}, fine, false},
		{answer{kind: failed, err: silent, late: true}, refused, true},
		{answer{kind: failed, err: silent}, refused, false},
		{answer{kind: failed, err: silent, late: true}, granted, false},
	} {
		if err := differ(tc.is, expected{kind: tc.want}); (err == nil) != tc.fits {
			t.Errorf("%+v instead of %s: %v", tc.is, tc.want, err)
		}
	}
}
