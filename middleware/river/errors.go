package lockriver

import (
	"context"
	"errors"
	"time"

	"github.com/riverqueue/river/rivertype"

	"github.com/keyturn/keyturn/internal/refusal"
)

const (
	// leastSnooze is how long a job is snoozed at least: River looks for jobs about once a second.
	leastSnooze = time.Second
	// outageSnooze is how long a job is snoozed if the store is out. Every job comes again and again
	// then, which must not keep the store down.
	outageSnooze = 5 * time.Second
)

// answers has the answer to River for each kind of refusal. A new row begins with a new Kind in
// internal/refusal.
var answers = map[refusal.Kind]func(ctx context.Context, refused, own error) error{
	refusal.Canceled:            ended,
	refusal.DeadlineExceeded:    ended,
	refusal.KeyInvalid:          cancel,
	refusal.TooManyWaiters:      snooze,
	refusal.WaitTimeout:         snooze,
	refusal.Held:                snooze,
	refusal.LeaseLost:           fail,
	refusal.LostByClose:         waitForStore, // the process stops, which is not the job's fault
	refusal.FingerprintMismatch: cancel,
	refusal.ResultNotKept:       fail, // DoOnce has turned duplicates into successes
	refusal.OutcomeUnknown:      waitForStore,
	refusal.RolledBack:          snooze,
	refusal.Unavailable:         waitForStore,
	refusal.Closed:              waitForStore,
	refusal.Deadlock:            fail,
	refusal.Panicked:            fail,
	refusal.Forbidden:           fail, // jobs have no prechecks
	refusal.Internal:            fail,
}

// ended: the job's own time is over, or River stops. A job that has not begun is no failure then.
func ended(ctx context.Context, refused, own error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return &rivertype.JobSnoozeError{Duration: leastSnooze}
	}
	return fail(ctx, refused, own)
}

func cancel(_ context.Context, refused, _ error) error { return rivertype.JobCancel(refused) }

func snooze(_ context.Context, refused, _ error) error {
	return &rivertype.JobSnoozeError{Duration: max(refusal.RetryAfter(refused), leastSnooze)}
}

func waitForStore(context.Context, error, error) error {
	return &rivertype.JobSnoozeError{Duration: outageSnooze}
}

func fail(_ context.Context, refused, own error) error { return errors.Join(refused, own) }
