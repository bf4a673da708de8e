package core_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
)

// Messages say which key, and never who holds it: they may reach the caller of a
// service.
func TestMessages(t *testing.T) {
	const key, holder = "user:42", "host-7/1/1/abc/0123456789abcdef0123456789abcdef"
	for want, err := range map[string]error{
		`"user:42" is held by another`:                  &core.HeldError{Key: key, Holder: holder},
		`3 callers already wait for "user:42"`:          &core.TooManyWaitersError{Key: key, Limit: 3},
		`3 callers already wait`:                        &core.TooManyWaitersError{Limit: 3},
		`lease on "user:42" lost: max hold`:             &core.LeaseLostError{Key: key, Reason: driver.LossMaxHold},
		`not held: "user:42"`:                           core.AssertHeld(bg, core.Exclusive(key)),
		`does not support permits`:                      &driver.UnsupportedError{Feature: "permits"},
		`store unavailable: acquire: connection closed`: &core.UnavailableError{Op: "acquire", Err: errors.New("connection closed")},
	} {
		if got := err.Error(); !strings.HasPrefix(got, "keyturn: ") || !strings.Contains(got, want) || strings.Contains(got, holder) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// The bound that cut a silent store short does not look like the caller's own;
// what else the store said can be reached.
func TestOutageHidesTheContextOnly(t *testing.T) {
	cause := errors.New("connection reset")
	wantOnly(t, &core.UnavailableError{Err: context.DeadlineExceeded}, core.ErrUnavailable)
	if err := error(&core.UnavailableError{Err: cause}); !errors.Is(err, cause) {
		t.Errorf("%v hides its cause", err)
	}
}
