package lockasynq_test

import (
	"context"
	"errors"
	"testing"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/shadowtest"
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

// TestTasksWithoutARulePassThrough: such a task is none of our business.
func TestTasksWithoutARulePassThrough(t *testing.T) {
	t.Parallel()
	eng := engine(t, nil)
	hold(t, eng, "k")
	l := locks(t, eng, lockasynq.Serialize("im:status", "k"))
	failure := errors.New("the handler's")
	given := context.WithValue(context.Background(), caller{}, 1)
	err := process(given, l.Middleware(handler(func(ctx context.Context, _ *asynq.Task) error {
		if ctx != given {
			t.Error("the handler got another context")
		}
		return failure
	})), "other", "")
	if err != failure {
		t.Errorf("error = %v, want the handler's own", err)
	}
}

func TestShadow(t *testing.T) {
	shadowtest.Run(t, func(t testing.TB, eng *core.Engine, once bool, run func(context.Context) error, opts ...core.CallOption) func(string) error {
		rule := lockasynq.Serialize
		if once {
			rule = lockasynq.Once
		}
		h := locks(t, eng, rule("t", "user:{payload.id}", opts...)).
			Middleware(handler(func(ctx context.Context, _ *asynq.Task) error { return run(ctx) }))
		return func(id string) error { return process(context.Background(), h, "t", `{"id":"`+id+`"}`) }
	})
}
