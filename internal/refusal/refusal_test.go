package refusal_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/refusal"
	"github.com/keyturn/keyturn/keytmpl"
)

var check = checktest.That

// examples has errors of every kind, as the engine and the key templates make them.
var examples = map[refusal.Kind][]error{
	refusal.Internal:            {errors.New("anything"), &driver.UnsupportedError{Feature: "sets"}, core.ErrNotHeld},
	refusal.Canceled:            {context.Canceled},
	refusal.DeadlineExceeded:    {context.DeadlineExceeded},
	refusal.KeyInvalid:          {&core.KeyError{Key: "", Reason: "is empty"}, &keytmpl.ValueError{Err: errors.New("too long")}, keytmpl.ErrMissingValue},
	refusal.Held:                {&core.HeldError{Key: "k"}},
	refusal.WaitTimeout:         {&core.HeldError{Key: "k", TimedOut: true}},
	refusal.TooManyWaiters:      {&core.TooManyWaitersError{Key: "k", Limit: 1}},
	refusal.LeaseLost:           {&core.LeaseLostError{Key: "k", Reason: driver.LossExpired}, errors.Join(&core.LeaseLostError{Key: "k"}, context.Canceled)},
	refusal.LostByClose:         {&core.LeaseLostError{Key: "k", Reason: driver.LossClosed}},
	refusal.FingerprintMismatch: {core.ErrFingerprintMismatch},
	refusal.ResultNotKept:       {&driver.ResultNotKeptError{Key: "k"}},
	refusal.OutcomeUnknown: {
		core.ErrOutcomeUnknown,
		fmt.Errorf("%w: %w", core.ErrOutcomeUnknown, &core.UnavailableError{Op: "complete", Err: errors.New("reset")}),
		fmt.Errorf("%w: %w", core.ErrOutcomeUnknown, context.Canceled),
	},
	refusal.RolledBack:  {fmt.Errorf("%w: %w", core.ErrRolledBack, context.Canceled)},
	refusal.Unavailable: {&core.UnavailableError{Op: "acquire", Err: context.DeadlineExceeded}, core.ErrUnavailable},
	refusal.Closed:      {core.ErrClosed},
	refusal.Deadlock:    {&driver.DeadlockError{Key: "k"}},
	refusal.Panicked:    {observe.ErrPanicked},
	refusal.Forbidden:   {&refusal.Denied{Err: errors.New("no member")}, &refusal.Denied{Err: core.ErrHeld}},
}

func TestOf(t *testing.T) {
	for _, kind := range refusal.Kinds() {
		check(t, len(examples[kind]) != 0, "kind %d has no example", kind)
		check(t, kind.Reason() != "", "kind %d has no reason", kind)
		for _, err := range examples[kind] {
			for _, err := range []error{err, fmt.Errorf("wrapped: %w", err)} {
				got := refusal.Of(err)
				check(t, got == kind, "%v: %s (kind %d), want %s (kind %d)", err, got.Reason(), got, kind.Reason(), kind)
			}
		}
	}
}

// What ended a request whose handler may have changed something is no reason to
// send it again, unless the store made sure that a repeat does no harm.
func TestAgain(t *testing.T) {
	for _, kind := range refusal.Kinds() {
		check(t, !kind.Again() || !kind.Ran() || kind == refusal.OutcomeUnknown || kind == refusal.RolledBack, "%s: a repeat is called safe, and the handler has run", kind.Reason())
		check(t, !kind.Contended() || kind.Again(), "%s: the key becomes free, and a repeat is called useless", kind.Reason())
	}
}

func TestRetryAfter(t *testing.T) {
	const soon = 1500 * time.Millisecond
	for _, err := range []error{&core.HeldError{RetryAfter: soon}, &core.TooManyWaitersError{RetryAfter: soon}} {
		if got := refusal.RetryAfter(fmt.Errorf("wrapped: %w", err)); got != soon {
			t.Errorf("%T: %v, want %v", err, got, soon)
		}
	}
	if got := refusal.RetryAfter(core.ErrUnavailable); got != 0 {
		t.Errorf("an outage: %v, want 0", got)
	}
}

// Contention is a frequent outcome, and package tracing asks for its kind each time.
func TestContentionCostsNoAllocation(t *testing.T) {
	var err error = &core.HeldError{Key: "k", TimedOut: true}
	n := testing.AllocsPerRun(100, func() { _ = refusal.Of(err) })
	check(t, n == 0, "%v allocations", n)
}
