package lockasynq

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
)

// setup notices a server that was configured without [IsFailure] or [RetryDelay]. The
// configuration cannot be inspected, and nothing fails without them: retries just run out, and
// tasks come back late. But asynq asks both about every error before it takes the next step
// with the task. So a rescheduling that neither was asked about shows the mistake.
type setup struct {
	since                 atomic.Int64 // when the first rescheduling was returned, in Unix nanoseconds
	isFailure, retryDelay atomic.Bool  // it was asked at least once
	warned                atomic.Bool
}

// asynq asks within microseconds, unless the server's ErrorHandler, which is called first,
// takes long.
const setupGrace = 10 * time.Second

// note records that asynq gets an error that reschedules. It warns, once per Locks, if asynq has
// not asked for the delay within setupGrace.
func (s *setup) note(ctx context.Context, again *RescheduleError) {
	if _, served := asynq.GetTaskID(ctx); !served || ctx.Err() != nil {
		return // asynq will not ask
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
