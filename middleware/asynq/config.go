package lockasynq

import (
	"errors"
	"time"

	"github.com/hibiken/asynq"
)

// IsFailure is for [asynq.Config]. It makes asynq count neither a retry nor a failed task for a
// [RescheduleError]. next judges all other errors; nil means asynq's default, under which every
// error is a failure.
func IsFailure(next func(error) bool) func(error) bool {
	if next == nil {
		next = func(err error) bool { return err != nil }
	}
	return func(err error) bool {
		var again *RescheduleError
		if errors.As(err, &again) {
			if again.setup != nil { // not made by hand
				again.setup.isFailure.Store(true)
			}
			return false
		}
		return next(err)
	}
}

// RetryDelay is for [asynq.Config.RetryDelayFunc]. A task that ended with a [RescheduleError]
// comes again after the error's RetryAfter, which is at least one second and at most ten. Each
// further time that the task is rescheduled in a row, the delay doubles, up to a minute. Up to
// half of the delay is added at random. A rule with [Rule.RescheduleEvery] has its own delay.
// next is for all other errors; nil means [asynq.DefaultRetryDelayFunc].
//
// asynq does not count reschedulings. So each process counts for itself how often it has
// rescheduled a task in a row, for some thousand tasks at a time.
func RetryDelay(next asynq.RetryDelayFunc) asynq.RetryDelayFunc {
	if next == nil {
		next = asynq.DefaultRetryDelayFunc
	}
	return func(n int, err error, task *asynq.Task) time.Duration {
		var again *RescheduleError
		if errors.As(err, &again) {
			if again.setup != nil {
				again.setup.retryDelay.Store(true)
			}
			return again.delay()
		}
		return next(n, err, task)
	}
}
