package lockasynq_test

import (
	"context"
	"errors"
	"testing"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/locktest"
	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
	"github.com/keyturn/keyturn/middleware/reasons"
)

func TestErrorHandler(t *testing.T) {
	busy, own := errors.New("busy"), errors.New("own")
	var told *reasons.Refusal
	kit := locktest.New(t)
	locks, err := lockasynq.New(kit.Engine, lockasynq.Serialize("t", "k:{payload.id}", core.WithFailFast()),
		lockasynq.Serialize("skip", "k:{payload.id}").OnConflict(lockasynq.Skip))
	if err != nil {
		t.Fatal(err)
	}
	locks = locks.WithErrorHandler(func(_ context.Context, task *asynq.Task, refused *reasons.Refusal) error {
		told = refused
		var again *lockasynq.RescheduleError
		var rejected *lockasynq.RejectedError
		if task.Type() != "t" || !errors.As(refused.Answer, &again) && !errors.As(refused.Answer, &rejected) {
			t.Errorf("%s: the default is %v", task.Type(), refused.Answer)
		}
		return busy
	})
	run := func(typename, payload string) error {
		h := locks.Middleware(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return own }))
		return h.ProcessTask(context.Background(), asynq.NewTask(typename, []byte(payload)))
	}
	if err := run("t", `{"id":1}`); err != own || told != nil {
		t.Errorf("the handler's own error: %v, %+v", err, told)
	}
	lease, err := kit.Engine.Acquire(context.Background(), "k:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := run("t", `{"id":1}`); err != busy || told == nil || told.Reason != reasons.LockHeld || told.Rule != "t" || told.Key != "k:1" || told.RetryAfter <= 0 {
		t.Errorf("refused: %v, %+v", err, told)
	}
	if err := run("skip", `{"id":1}`); err != nil {
		t.Errorf("dropped: %v", err)
	}
	if err := run("t", `{}`); err != busy || told.Reason != reasons.KeyInvalid {
		t.Errorf("no key: %v, %+v", err, told)
	}
	if err := lease.Release(context.Background()); err != nil {
		t.Error(err)
	}
}
