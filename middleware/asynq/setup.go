package lockasynq

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
)

// setup notices a server that was configured without [IsFailure] or
// [RetryDelay]. Nothing lets us look at the configuration, and nothing fails
// without them: retries just run out, and tasks come back late. But asynq asks
// both about every error before it takes the next step with the task, so a
// rescheduling that neither was asked about tells.
//
// A nil setup takes note of nothing: that of an error made by hand.
type setup struct {
	since                 atomic.Int64 // first rescheduling, in Unix nanoseconds
	isFailure, retryDelay atomic.Bool  // whether it was ever asked
	warned                atomic.Bool
}

// Asked within microseconds, unless the server's ErrorHandler, whose turn comes
// first, takes its time.
const setupGrace = 10 * time.Second

// note sees which reschedulings asynq is told of, and warns, once per Locks.
func (s *setup) note(ctx context.Context, again *RescheduleError) {
	if _, served := asynq.GetTaskID(ctx); !served || ctx.Err() != nil {
		return // nobody will ask
	}
	now := time.Now().UnixNano()
	if s.since.CompareAndSwap(0, now) || now-s.since.Load() < int64(setupGrace) {
		return
	}
	if s.isFailure.Load() && s.retryDelay.Load() || s.warned.Swap(true) {
		return
	}
	slog.WarnContext(ctx, "lockasynq: the asynq server never asks about rescheduled tasks, which costs them retries or time; "+
		"set Config.IsFailure to lockasynq.IsFailure(...), Config.RetryDelayFunc to lockasynq.RetryDelay(...), and wrap errors with %w",
		"asks_IsFailure", s.isFailure.Load(), "asks_RetryDelay", s.retryDelay.Load(), "rule", again.Pattern)
}

func (s *setup) askedIsFailure() {
	if s != nil {
		s.isFailure.Store(true)
	}
}

func (s *setup) askedRetryDelay() {
	if s != nil {
		s.retryDelay.Store(true)
	}
}
