package asynqcarry_test

import (
	"context"
	"maps"
	"testing"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/experimental/carry"
	"github.com/keyturn/keyturn/locktest"
	"github.com/keyturn/keyturn/middleware/asynq/experimental/asynqcarry"
)

// A task gets the key that its enqueuer holds, if both sides opted in. For how long it has it is core's.
func TestTaskRunsUnderTheEnqueuersLease(t *testing.T) {
	producer := locktest.New(t)
	worker := producer.Peer(t).Engine
	work := asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		return worker.Do(ctx, "user:42", func(context.Context) error { return nil }, core.WithFailFast())
	})
	accepting := asynqcarry.Accept(work)
	ctx := context.Background()
	run := func(h asynq.Handler, headers map[string]string) bool {
		return h.ProcessTask(ctx, asynq.NewTaskWithHeaders("t", nil, headers)) == nil
	}
	given := map[string]string{"a": "b"}
	err := producer.Engine.Do(ctx, "user:42", func(under context.Context) error {
		headers := asynqcarry.Headers(under, given)
		if !maps.Equal(given, map[string]string{"a": "b"}) || headers["a"] != "b" || headers[carry.Header] == "" {
			t.Errorf("%v, %v", given, headers)
		}
		if !run(accepting, headers) {
			t.Error("not under the lease")
		}
		if run(work, headers) || run(accepting, nil) || run(accepting, map[string]string{carry.Header: "x"}) {
			t.Error("one side alone is enough")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if headers := asynqcarry.Headers(ctx, map[string]string{carry.Header: "x"}); len(headers) != 0 {
		t.Errorf("nothing to carry: %v", headers)
	}
}

func TestAcceptWithoutAHandler(t *testing.T) {
	defer func() {
		if err, _ := recover().(string); err == "" {
			t.Error("no panic")
		}
	}()
	asynqcarry.Accept(nil)
}
