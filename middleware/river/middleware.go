package lockriver

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/riverqueue/river/rivertype"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/refusal"
	"github.com/keyturn/keyturn/internal/rule"
)

// leastSnooze is how long a job is snoozed at least: River looks for jobs about once a second.
const leastSnooze = time.Second

// outageSnooze is how long a job is snoozed if the store is out.
const outageSnooze = 5 * time.Second

// IsMiddleware implements rivertype.Middleware.
func (l *Locks) IsMiddleware() bool { return true }

// Work implements rivertype.WorkerMiddleware. Jobs of kinds without a rule pass through.
func (l *Locks) Work(ctx context.Context, job *rivertype.JobRow, doInner func(context.Context) error) error {
	r, ok := l.rules[job.Kind]
	if !ok {
		return doInner(ctx)
	}
	keys, err := r.Keys(newRequest(ctx, job))
	if err != nil {
		return rivertype.JobCancel(fmt.Errorf("lockriver: rule for %q: %w", r.Name, err))
	}
	refused, own := run(ctx, r, keys, job, doInner)
	if refused == nil {
		return own
	}
	return answers[refusal.Of(refused)](ctx, fmt.Errorf("lockriver: rule for %q: %w", r.Name, refused), own)
}

// run calls fn under the keys. refused is the engine's error, and own fn's.
func run(ctx context.Context, r *rule.Rule[*request], keys rule.Keys, job *rivertype.JobRow, fn func(context.Context) error) (refused, own error) {
	if !r.Once {
		return r.Serialize(ctx, keys, fn)
	}
	out, refused, own := r.RunOnce(ctx, keys, func(ctx context.Context) ([]byte, error) { return nil, fn(ctx) },
		core.WithFingerprint(fingerprint(job)))
	if out.Duplicate && errors.Is(refused, core.ErrResultNotKept) {
		return nil, nil // done by something that had a result, which nobody needs here
	}
	return refused, own
}

// fingerprint identifies what a job asks for. Its id does not count: it differs from one insertion
// of a message to the next.
func fingerprint(job *rivertype.JobRow) []byte {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d:%s%s", len(job.Kind), job.Kind, job.EncodedArgs))
	return sum[:]
}

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
	refusal.ResultNotKept:       fail, // run has turned duplicates into successes
	refusal.OutcomeUnknown:      waitForStore,
	refusal.RolledBack:          snooze,
	refusal.Unavailable:         waitForStore,
	refusal.Closed:              waitForStore,
	refusal.Deadlock:            fail,
	refusal.Panicked:            fail,
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
