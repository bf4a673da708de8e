package lockasynq

import (
	"context"
	"time"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/rule"
)

// work is a task on its way through a rule.
type work struct {
	*rule.Rule[*request]
	task    *asynq.Task
	claims  []core.Claim
	handler asynq.Handler
	setup   *setup
}

// try waits for the keys as long as the rule says, but no longer than the task
// has time for, and runs the handler under them.
func (w work) try(ctx context.Context) error {
	t := takeTurn(ctx)
	defer t.end()
	refused, own := w.run(t, func(ctx context.Context) error {
		if !t.came() {
			return errTurnOver
		}
		return w.handler.ProcessTask(ctx, w.task)
	})
	if own == errTurnOver || isContext(refused) && t.over() {
		refused, own = &core.HeldError{Key: w.claims[0].Key}, nil
	}
	return w.answer(ctx, refused, own)
}

// insist is try on the task's last attempt. Whatever would be rescheduled is
// done here instead: it waits, and tries again, until the handler has run or
// the task's own time is over. When the server shuts down meanwhile, asynq puts
// the task back into its queue.
func (w work) insist(ctx context.Context) error {
	for {
		refused, own := w.run(ctx, func(ctx context.Context) error {
			return w.handler.ProcessTask(ctx, w.task)
		}, core.WithMaxWait(0))
		if refused == nil {
			return own
		}
		err := w.answer(ctx, refused, own)
		again, ok := err.(*RescheduleError)
		if !ok {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err() // asynq has turned to it already
		case <-time.After(again.delay()):
		}
	}
}

// run calls fn under the keys. Refused is the engine's word and own is fn's, as
// in [rule.Rule.Serialize].
func (w work) run(ctx context.Context, fn func(context.Context) error, opts ...core.CallOption) (refused, own error) {
	if w.Once {
		return w.runOnce(ctx, fn, opts...)
	}
	return w.Serialize(ctx, w.claims, fn, opts...)
}
