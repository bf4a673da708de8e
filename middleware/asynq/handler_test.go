package lockasynq_test

import (
	"context"
	"errors"
	"testing"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/core"
	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
	"github.com/keyturn/keyturn/middleware/reasons"
)

func TestErrorHandler(t *testing.T) {
	t.Parallel()
	busy, own := errors.New("busy"), errors.New("own")
	var told *reasons.Refusal
	eng := engine(t, nil)
	h := locks(t, eng, lockasynq.Serialize("t", "k:{payload.id}", core.WithFailFast()),
		lockasynq.Serialize("skip", "k:{payload.id}").OnConflict(lockasynq.Skip)).
		WithErrorHandler(func(_ context.Context, task *asynq.Task, refused *reasons.Refusal) error {
			told = refused
			var rejected *lockasynq.RejectedError
			if task.Type() != "t" || !isAgain(refused.Answer) && !errors.As(refused.Answer, &rejected) {
				t.Errorf("%s: the default is %v", task.Type(), refused.Answer)
			}
			return busy
		}).Middleware(handler(func(context.Context, *asynq.Task) error { return own }))
	run := func(typename, payload string) error { return process(context.Background(), h, typename, payload) }
	if err := run("t", `{"id":1}`); err != own || told != nil {
		t.Errorf("the handler's own error: %v, %+v", err, told)
	}
	hold(t, eng, "k:1")
	if err := run("t", `{"id":1}`); err != busy || told == nil || told.Reason != reasons.LockHeld || told.Rule != "t" || told.Key != "k:1" || told.RetryAfter <= 0 {
		t.Errorf("refused: %v, %+v", err, told)
	}
	if err := run("skip", `{"id":1}`); err != nil {
		t.Errorf("dropped: %v", err)
	}
	if err := run("t", `{}`); err != busy || told.Reason != reasons.KeyInvalid {
		t.Errorf("no key: %v, %+v", err, told)
	}
}
