package lockasynq

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/internal/refusal"
)

// RescheduleError says that a task was not processed, that this was not its
// fault, and that it has to come again. With [IsFailure] and [RetryDelay] in
// the server's configuration asynq does that after a short delay and without
// counting a retry. It unwraps to the reason, which matches
//
//   - core.ErrHeld: another task has the key, or, under Once, is being processed
//   - core.ErrTooManyWaiters: too many wait for the key in this process
//   - core.ErrUnavailable: the store did not answer
//   - core.ErrClosed: the engine is closed, or was before the handler was done
//   - core.ErrOutcomeUnknown: the handler was done, but not its record
type RescheduleError struct {
	Pattern    string        // the rule's
	RetryAfter time.Duration // when to come again; 0 when nothing is known
	Times      int           // how often in a row, as far as this process knows: 1 for the first; 0: unknown
	Fixed      bool          // RetryAfter is the rule's own ([Rule.RescheduleEvery]), each time
	Err        error

	setup *setup // of the Locks that made it
}

// Error tells the key, but not who holds it: asynq keeps it with the task, for
// everybody who may look at the queue.
func (e *RescheduleError) Error() string {
	return fmt.Sprintf("lockasynq: task rescheduled by the rule for %q: %v", e.Pattern, e.Err)
}

// Unwrap returns the reason.
func (e *RescheduleError) Unwrap() error { return e.Err }

const (
	// asynq keeps the time of a retry in whole seconds and cuts off the rest:
	// less than one would often be none.
	minDelay = time.Second
	// As long as the engine has seen no hold end, RetryAfter is what is left of
	// the TTL: up to a day. A living holder releases long before.
	maxDelay = 10 * time.Second
	// While a store is down every task comes again and again: slowly enough not
	// to be what keeps it down.
	outageDelay = 5 * time.Second
	// However often a task has come in vain: the key may be free any time.
	maxGrown = time.Minute
)

// delay is RetryAfter as it is where that is the rule's, or else within bounds, twice as long for each time that the task
// came before, and up to half of it more, so that tasks which were refused
// together do not come back together.
func (e *RescheduleError) delay() time.Duration {
	if e.Fixed {
		return e.RetryAfter
	}
	d := min(max(e.RetryAfter, minDelay), maxDelay)
	for n := 1; n < e.Times && d < maxGrown; n++ {
		d = min(2*d, maxGrown)
	}
	return d + rand.N(d/2)
}

// RejectedError says that a task can't be processed however often it comes:
// its key is missing or invalid, or under Once it has the key of another task
// and other content. It matches [asynq.SkipRetry], so asynq archives the task at
// once, where a person finds it with this text. It unwraps to the reason too,
// such as keytmpl.ErrMissingValue or core.ErrFingerprintMismatch.
type RejectedError struct {
	Pattern string // the rule's
	Err     error
}

func (e *RejectedError) Error() string {
	return fmt.Sprintf("lockasynq: task refused by the rule for %q: %v", e.Pattern, e.Err)
}

// Unwrap returns asynq.SkipRetry and the reason.
func (e *RejectedError) Unwrap() []error { return []error{asynq.SkipRetry, e.Err} }

// answers says what asynq is told, with one row for each kind of refusal.
var answers = map[refusal.Kind]func(w work, ctx context.Context, refused, own error) error{
	refusal.Canceled:            work.ended,
	refusal.DeadlineExceeded:    work.ended,
	refusal.KeyInvalid:          work.reject,
	refusal.TooManyWaiters:      work.conflicted,
	refusal.WaitTimeout:         work.conflicted,
	refusal.Held:                work.conflicted,
	refusal.LeaseLost:           work.fail,
	refusal.LostByClose:         work.waitForStore, // the server stops: that is not the task's fault
	refusal.FingerprintMismatch: work.reject,
	refusal.ResultNotKept:       work.fail, // runOnce has made a success of the duplicates
	refusal.OutcomeUnknown:      work.waitForStore,
	refusal.Unavailable:         work.waitForStore,
	refusal.Closed:              work.waitForStore,
	refusal.Deadlock:            work.fail,
	refusal.Panicked:            work.fail,
	refusal.Internal:            work.fail,
}

// answer is what asynq is told. A handler's own error is passed on as it is,
// whatever it matches: it may be about a lock that is none of ours.
func (w work) answer(ctx context.Context, refused, own error) error {
	if refused == nil {
		return own
	}
	var newer *superseded
	if errors.As(refused, &newer) {
		w.skip(ctx, coverage.SkipSuperseded, newer)
		return nil
	}
	return answers[refusal.Of(refused)](w, ctx, refused, own)
}

// ended passes on the end of the attempt, which asynq knows of.
func (w work) ended(ctx context.Context, refused, own error) error {
	if ctx.Err() != nil {
		return refused
	}
	return w.fail(ctx, refused, own)
}

func (w work) reject(_ context.Context, refused, _ error) error {
	return &RejectedError{Pattern: w.Name, Err: refused}
}

func (w work) waitForStore(_ context.Context, refused, _ error) error {
	return w.reschedule(outageDelay, refused)
}

// fail ends the attempt with an error. What the handler returned goes along.
func (w work) fail(_ context.Context, refused, own error) error {
	var lost *core.LeaseLostError
	if errors.As(refused, &lost) && own != nil {
		return fmt.Errorf("lockasynq: rule for %q: %w; the handler returned: %w", w.Name, lost, own)
	}
	return fmt.Errorf("lockasynq: rule for %q: %w", w.Name, refused)
}

func (w work) reschedule(after time.Duration, err error) error {
	fixed := w.every > 0 && contended(err)
	if fixed {
		after = w.every
	}
	return &RescheduleError{Pattern: w.Name, RetryAfter: after, Fixed: fixed, Err: err, setup: w.setup}
}
