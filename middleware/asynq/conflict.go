package lockasynq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/internal/refusal"
)

// Conflict says what happens to a task whose key another task holds or, with Once, whose first
// execution still runs. See [Rule.OnConflict]. The zero value is [Reschedule].
//
// It concerns nothing else. An outage of the store reschedules a task whatever the rule says,
// because nobody knows then whether the key is held.
type Conflict int

const (
	// Reschedule: the task waits a little (core.WithMaxWait, [DefaultMaxWait]) and then comes
	// again, without using up a retry. On its last attempt it waits for the key instead. This
	// is the default.
	Reschedule Conflict = iota
	// Wait: the task stays on its worker until it has the key, or until its own deadline ends
	// the attempt, which asynq counts. core.WithMaxWait and core.WithFailFast have no effect.
	// This is the fastest choice and keeps the order best, but each waiting task occupies a
	// worker.
	Wait
	// Skip: the task is dropped as if it were done, and its handler is not called. It is for
	// work that somebody is doing right now, such as rebuilding a cache. The task does not
	// wait, unless the rule has core.WithMaxWait. Each dropped task is logged and counted
	// ([Locks.Skipped]). If too many tasks wait for the key, a task is rescheduled instead,
	// because that is overload.
	Skip
	// Fail: the task waits a little, and then the attempt fails as if its handler had failed.
	// It uses up a retry, comes again after asynq's own delay, and is archived after the last
	// attempt. The error is a [ConflictError].
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

// ConflictError ends an attempt under [Fail]. It unwraps to the reason, which matches
// core.ErrHeld or core.ErrTooManyWaiters. Its text has the key, but not the holder.
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
		w.why.err = nil
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
	queue, _ := asynq.GetQueueName(ctx)
	slog.InfoContext(ctx, "lockasynq: task skipped", "rule", w.Name,
		"type", w.task.Type(), "id", w.shownID(ctx), "queue", queue, "reason", refused)
}

// shownID is the task's id without the key, if that must not be shown: an id of [Locks.TaskID] has it.
func (w work) shownID(ctx context.Context) string {
	id, _ := asynq.GetTaskID(ctx)
	if w.keys.Missing() {
		return id
	}
	return strings.ReplaceAll(id, w.keys.First, w.Engine().ShowKey(w.keys.First))
}

// Skipped returns how many tasks each rule with [Skip] or [Rule.KeepLatestBy] has dropped in
// this process so far, by pattern. The hook observe.Hooks.Skipped is called for each of them as
// well. It is safe for concurrent use.
func (l *Locks) Skipped() map[string]uint64 {
	counts := make(map[string]uint64)
	for _, r := range l.rules {
		if r.Info().Skips != "" {
			counts[r.Name] = r.skipped.Load()
		}
	}
	return counts
}
