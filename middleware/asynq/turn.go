package lockasynq

import (
	"context"
	"errors"
	"time"
)

// errTurnOver ends a wait that would leave the task too little time.
var errTurnOver = errors.New("the wait took half of the task's time")

// turn is a task's context that also ends, as by a deadline, when a wait has taken half of the
// time until the task's own deadline. If the task waited longer, asynq would end it at its
// deadline and count a failed attempt. A held key would then use up the retries of tasks with a
// short timeout.
//
// Once the task has its key, only the task's own end counts. A context with a deadline cannot
// do that, because the lease's context descends from it.
type turn struct {
	context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer // nil: the task has no deadline
}

func takeTurn(task context.Context) *turn {
	t := &turn{}
	t.Context, t.cancel = context.WithCancelCause(task)
	if deadline, ok := task.Deadline(); ok {
		t.timer = time.AfterFunc(time.Until(deadline)/2, func() { t.cancel(errTurnOver) })
	}
	return t
}

// came stops the clock. It reports false if the turn was over before.
func (t *turn) came() bool {
	return t.timer == nil || t.timer.Stop()
}

// over reports whether the turn, and not the task, has ended.
func (t *turn) over() bool { return context.Cause(t.Context) == errTurnOver }

// Err makes the end of the turn look like a deadline to the engine, which distinguishes it from
// a store that did not answer.
func (t *turn) Err() error {
	if t.over() {
		return context.DeadlineExceeded
	}
	return t.Context.Err()
}

func (t *turn) end() {
	if t.timer != nil {
		t.timer.Stop()
	}
	t.cancel(nil)
}
