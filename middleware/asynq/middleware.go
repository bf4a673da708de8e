package lockasynq

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/refusal"
	"github.com/keyturn/keyturn/middleware/reasons"
)

// DefaultMaxWait is how long a task waits for its key, on a worker, before it is rescheduled,
// unless its rule has core.WithMaxWait or core.WithFailFast. It is short because a waiting task
// occupies a worker. It is not shorter because a rescheduled task comes back only when asynq's
// forwarder looks, every five seconds by default. The engine's own default does not count here.
const DefaultMaxWait = 2 * time.Second

// Locks is a set of rules over an engine. It is safe for concurrent use. Make
// one with [New].
type Locks struct {
	*process
	handler ErrorHandler
}

// process is what all Locks over the same rules share.
type process struct {
	rules []*checked // longest pattern first
	setup setup
	again returns
}

// New checks every rule and makes Locks of them. It does no I/O. The error joins everything
// that is wrong:
//
//   - the engine, a pattern or a key function is missing;
//   - rules of one pattern make no set (see [Serialize]);
//   - a template does not parse or names an unknown source;
//   - an option is out of range (core.ErrInvalidOption);
//   - the engine's store does not support a rule (errors.ErrUnsupported): [*] takes several
//     claims at once, and Once takes records.
//
// A task type that does not exist is no error, because types are not known at start.
func New(eng *core.Engine, rules ...Rule) (*Locks, error) {
	l := &Locks{process: &process{again: returns{seed: maphash.MakeSeed()}}}
	var errs []error
	if eng == nil && len(rules) == 0 {
		errs = append(errs, &core.OptionError{Option: "lockasynq.New", Value: nil, Want: "an engine"})
	}
	seen := make(map[string]*checked)
	for _, r := range rules {
		compiled, err := r.compile(eng)
		if before := seen[r.pattern]; before != nil && err == nil {
			err = before.join(compiled)
		} else if err == nil {
			seen[r.pattern] = compiled
			l.rules = append(l.rules, compiled)
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("lockasynq: %w", err)
	}
	slices.SortFunc(l.rules, func(a, b *checked) int { return len(b.Name) - len(a.Name) })
	return l, nil
}

// find returns the rule for a task type, or nil. It chooses like [asynq.ServeMux]: the longest
// pattern that the type begins with, which is the type itself if there is such a rule.
func (l *Locks) find(typename string) *checked {
	for _, r := range l.rules {
		if strings.HasPrefix(typename, r.Name) {
			return r
		}
	}
	return nil
}

// Middleware is an [asynq.MiddlewareFunc]. Pass it to [asynq.ServeMux.Use], or call it to wrap
// one handler. Tasks without a rule pass through. For the others, the handler's context is the
// lease's, so [core.LeaseFrom] finds the lease.
//
// It panics if next is nil, as asynq does.
func (l *Locks) Middleware(next asynq.Handler) asynq.Handler {
	if next == nil {
		panic("lockasynq: nil handler")
	}
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		r := l.find(task.Type())
		if r == nil {
			return next.ProcessTask(ctx, task)
		}
		var why refused
		err := l.run(ctx, task, r, next, &why)
		if l.handler == nil || why.err == nil {
			return err
		}
		return l.handler(ctx, task, refusal.Told(r.Name, why.key, why.err, err))
	})
}

// ErrorHandler answers refused tasks in the service's own way. It returns the error for asynq:
// refused.Answer is the default, such as a [*RescheduleError]; nil counts the task as done. An error
// that wraps a RescheduleError is treated as one. It is not called if the rule drops a task
// ([Skip], [Rule.KeepLatestBy]), nor for errors of handlers.
type ErrorHandler func(ctx context.Context, task *asynq.Task, refused *reasons.Refusal) error

// WithErrorHandler returns Locks with the same rules that answer refusals by h. Use them in place of l.
func (l *Locks) WithErrorHandler(h ErrorHandler) *Locks {
	return &Locks{process: l.process, handler: h}
}

// refused is why a task was refused at last; err is nil if it was not.
type refused struct {
	key string
	err error
}

// run makes the task's keys and runs next under them.
func (l *Locks) run(ctx context.Context, task *asynq.Task, r *checked, next asynq.Handler, why *refused) error {
	w := work{checked: r, task: task, handler: next, setup: &l.setup, last: lastAttempt(ctx), why: why}
	answer, err := w.read(ctx, task)
	why.key = w.keys.First
	if err != nil {
		why.err = err
		return answer
	}
	if w.last || r.conflict == Wait {
		err = w.insist(ctx)
	} else {
		err = w.try(ctx)
	}
	if again, ok := err.(*RescheduleError); ok && again.setup == &l.setup {
		again.Times = l.again.add(ctx)
		l.setup.note(ctx, again)
	} else {
		l.again.forget(ctx)
	}
	return err
}

// lastAttempt reports whether asynq archives the task after any error. It does so before it
// asks Config.IsFailure. So a rescheduling, which is an error for asynq, would count as a
// failure.
func lastAttempt(ctx context.Context) bool {
	retried, ok := asynq.GetRetryCount(ctx)
	most, known := asynq.GetMaxRetry(ctx)
	return ok && known && retried >= most
}
