package lockasynq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/internal/refusal"
)

// Conflict says what becomes of a task whose key is held by another, or, under
// Once, whose first execution still runs. See [Rule.OnConflict].
//
// It is about no more than that. An outage of the store reschedules a task
// whatever the rule says: nobody knows then whether the key is held.
type Conflict int

const (
	// Reschedule: the task waits a little (core.WithMaxWait, [DefaultMaxWait]) and
	// then comes again, without using up a retry. On its last attempt it waits.
	// This is what a rule does that says nothing.
	Reschedule Conflict = iota
	// Wait: the task stays on its worker until it has the key, or its own deadline
	// ends the attempt, which asynq counts. What the rule says with core.WithMaxWait
	// or core.WithFailFast does not count. It is the fastest and keeps the order
	// best, and each task that waits keeps a worker from others.
	Wait
	// Skip: the task is dropped as if it were done, and its handler is not called:
	// for work that somebody is doing right now, such as a cache being rebuilt. It
	// does not wait, unless the rule says so with core.WithMaxWait. Each one is
	// logged and counted ([Locks.Skipped]). What was not looked at because too many
	// wait for the key is rescheduled: that is overload.
	Skip
	// Fail: the task waits a little, and then the attempt has failed as if by the
	// handler: it uses up a retry, comes again when asynq's own delay is over, and
	// is archived after the last. The error is a [ConflictError].
	Fail
)

// String returns the policy's name in lower case.
func (c Conflict) String() string {
	switch c {
	case Reschedule:
		return "reschedule"
	case Wait:
		return "wait"
	case Skip:
		return "skip"
	case Fail:
		return "fail"
	}
	return fmt.Sprintf("Conflict(%d)", int(c))
}

// defaultWait is for rules without an option about waiting.
func (c Conflict) defaultWait() core.CallOption {
	if c == Skip {
		return core.WithFailFast()
	}
	return core.WithMaxWait(DefaultMaxWait)
}

// OnConflict returns the rule with another policy than [Reschedule]:
//
//	lockasynq.Serialize("cache:rebuild", "cache:{payload.name}").OnConflict(lockasynq.Skip)
func (r Rule) OnConflict(c Conflict) Rule {
	r.conflict = c
	return r
}

// ConflictError is how an attempt ends under [Fail]. It unwraps to the reason,
// which matches core.ErrHeld or core.ErrTooManyWaiters. Its text tells the key
// and not who holds it.
type ConflictError struct {
	Pattern string // the rule's pattern
	Err     error
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("lockasynq: attempt failed by the rule for %q: %v", e.Pattern, e.Err)
}

// Unwrap returns the reason.
func (e *ConflictError) Unwrap() error { return e.Err }

// conflicted returns the error for asynq if a task cannot have its key.
func (w work) conflicted(ctx context.Context, refused, _ error) error {
	switch {
	case w.conflict == Skip && errors.Is(refused, core.ErrHeld):
		w.skip(ctx, coverage.SkipHeld, refused)
		return nil
	case w.conflict == Fail:
		return &ConflictError{Pattern: w.Name, Err: refused}
	}
	return w.reschedule(refusal.RetryAfter(refused), refused)
}

// skip logs and counts skipped work: for asynq, the task is like any other that succeeded.
func (w work) skip(ctx context.Context, why coverage.SkipReason, refused error) {
	w.skipped.Add(1)
	w.Skipped(ctx, why)
	id, _ := asynq.GetTaskID(ctx)
	queue, _ := asynq.GetQueueName(ctx)
	slog.InfoContext(ctx, "lockasynq: task skipped", "rule", w.Name,
		"type", w.task.Type(), "id", id, "queue", queue, "reason", refused)
}

// Skipped says how many tasks each rule with [Skip] or [Rule.KeepLatestBy] has
// dropped in this process so far, by pattern. The hook observe.Hooks.Skipped is told of each as well.
func (l *Locks) Skipped() map[string]uint64 {
	counts := make(map[string]uint64)
	for _, r := range l.rules {
		if r.Info().Skips != "" {
			counts[r.Name] = r.skipped.Load()
		}
	}
	return counts
}
