package lockasynq

import (
	"errors"
	"time"

	"github.com/hibiken/asynq"
)

// IsFailure is for [asynq.Config]: it says that a [RescheduleError] is no
// failure, so that asynq counts neither a retry nor a failed task. All other
// errors are next's to judge; nil means asynq's default, under which every
// error is a failure.
func IsFailure(next func(error) bool) func(error) bool {
	if next == nil {
		next = func(err error) bool { return err != nil }
	}
	return func(err error) bool {
		var again *RescheduleError
		if errors.As(err, &again) {
			again.setup.askedIsFailure()
			return false
		}
		return next(err)
	}
}

// RetryDelay is for [asynq.Config.RetryDelayFunc]: it has a task that comes
// with a [RescheduleError] come again after the error's RetryAfter, at least a
// second and at most ten; twice as long each further time that the task is
// rescheduled in a row, up to a minute; and up to half of that more, by chance. A
// rule with [Rule.RescheduleEvery] says itself when.
// All other errors are next's; nil means [asynq.DefaultRetryDelayFunc].
//
// Each process counts for itself how often it has rescheduled a task in a row,
// for some thousand tasks at a time: asynq keeps no such count.
func RetryDelay(next asynq.RetryDelayFunc) asynq.RetryDelayFunc {
	if next == nil {
		next = asynq.DefaultRetryDelayFunc
	}
	return func(n int, err error, task *asynq.Task) time.Duration {
		var again *RescheduleError
		if errors.As(err, &again) {
			again.setup.askedRetryDelay()
			return again.delay()
		}
		return next(n, err, task)
	}
}
