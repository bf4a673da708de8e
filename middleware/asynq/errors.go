package lockasynq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/internal/refusal"
)

// RescheduleError says that a task was not processed, that this was not its fault, and that it
// has to come again. If the server's configuration has [IsFailure] and [RetryDelay], asynq does
// that after a short delay and without counting a retry. It unwraps to the reason, which
// matches
//
//   - core.ErrHeld: another task has the key or, with Once, the task is being processed
//   - core.ErrTooManyWaiters: too many callers wait for the key in this process
//   - core.ErrRolledBack: the database undid what the handler did, because of another
//     transaction, or the lease was lost before the handler ran
//   - core.ErrUnavailable: the store, or the database, did not answer
//   - core.ErrClosed: the engine is closed, or was closed before the handler had finished
//   - core.ErrOutcomeUnknown: the handler finished, but its record is uncertain
type RescheduleError struct {
	Pattern    string        // the rule's pattern
	RetryAfter time.Duration // when to come again; 0 if nothing is known
	Times      int           // how often in a row, as far as this process knows; 1 for the first; 0: unknown
	Fixed      bool          // RetryAfter is the rule's own ([Rule.RescheduleEvery]) and does not grow
	Err        error

	setup *setup // the setup of the Locks that made it
}

// Error returns a text with the key, but without its holder: asynq keeps the text with the
// task, where everybody who may look at the queue can read it.
func (e *RescheduleError) Error() string {
	return fmt.Sprintf("lockasynq: task rescheduled by the rule for %q: %v", e.Pattern, e.Err)
}

// Unwrap returns the reason.
func (e *RescheduleError) Unwrap() error { return e.Err }

const (
	// asynq keeps the time of a retry in whole seconds and cuts off the rest, so less than a
	// second would often mean none.
	minDelay = time.Second
	// Until the engine has seen a hold end, RetryAfter is the rest of the TTL: up to a day. A
	// living holder releases long before.
	maxDelay = 10 * time.Second
	// While a store is down, every task comes again and again. That must be slow enough not to
	// keep the store down.
	outageDelay = 5 * time.Second
	// However often a task has come in vain, the key may be free at any time.
	maxGrown = time.Minute
)

// delay is RetryAfter if the rule sets it. Otherwise it is RetryAfter within bounds, doubled
// each time that the task has come before, plus up to half of it at random. So tasks that were
// refused together do not come back together.
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

// RejectedError says that a task cannot be processed however often it comes: its key is missing
// or invalid or, with Once, it has the key of another task with other content. It matches
// [asynq.SkipRetry], so asynq archives the task at once, with this text for a person. It also
// unwraps to the reason, such as keytmpl.ErrMissingValue or core.ErrFingerprintMismatch.
type RejectedError struct {
	Pattern string // the rule's pattern
	Err     error
}

func (e *RejectedError) Error() string {
	return fmt.Sprintf("lockasynq: task refused by the rule for %q: %v", e.Pattern, e.Err)
}

// Unwrap returns asynq.SkipRetry and the reason.
func (e *RejectedError) Unwrap() []error { return []error{asynq.SkipRetry, e.Err} }

// answers has the answer to asynq for each kind of refusal. A new row begins with a new Kind in
// internal/refusal.
var answers = map[refusal.Kind]func(w work, ctx context.Context, refused, own error) error{
	refusal.Canceled:            work.ended,
	refusal.DeadlineExceeded:    work.ended,
	refusal.KeyInvalid:          work.reject,
	refusal.TooManyWaiters:      work.conflicted,
	refusal.WaitTimeout:         work.conflicted,
	refusal.Held:                work.conflicted,
	refusal.LeaseLost:           work.fail,
	refusal.LostByClose:         work.waitForStore, // the server stops, which is not the task's fault
	refusal.FingerprintMismatch: work.reject,
	refusal.ResultNotKept:       work.fail, // DoOnce has turned duplicates into successes
	refusal.OutcomeUnknown:      work.waitForStore,
	refusal.RolledBack:          work.comeAgain,
	refusal.Unavailable:         work.waitForStore,
	refusal.Closed:              work.waitForStore,
	refusal.Deadlock:            work.fail,
	refusal.Panicked:            work.fail,
	refusal.Forbidden:           work.fail, // tasks have no prechecks
	refusal.Internal:            work.fail,
}

// answer returns the error for asynq. A handler's own error is returned unchanged, whatever it
// matches: it may be about a lock of somebody else.
func (w work) answer(ctx context.Context, refused, own error) error {
	w.why.err = refused
	if refused == nil {
		return own
	}
	var newer *superseded
	if errors.As(refused, &newer) {
		w.why.err = nil
		w.skip(ctx, coverage.SkipSuperseded, newer)
		return nil
	}
	return answers[refusal.Of(refused)](w, ctx, refused, own)
}

// ended returns the error of an attempt whose context ended, which asynq knows.
func (w work) ended(ctx context.Context, refused, own error) error {
	if ctx.Err() != nil {
		return refused
	}
	return w.fail(ctx, refused, own)
}

func (w work) reject(ctx context.Context, refused, _ error) error {
	// asynq archives the task, and its own log does not say why.
	slog.WarnContext(ctx, "lockasynq: task refused for good", "rule", w.Name, "error", refused)
	return &RejectedError{Pattern: w.Name, Err: refused}
}

func (w work) waitForStore(_ context.Context, refused, _ error) error {
	return w.reschedule(outageDelay, refused)
}

// comeAgain is for a task that others were in the way of, and that has done nothing.
func (w work) comeAgain(_ context.Context, refused, _ error) error { return w.reschedule(0, refused) }

// fail ends the attempt with an error that includes the handler's.
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
