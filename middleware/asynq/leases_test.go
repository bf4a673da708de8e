package lockasynq_test

import (
	"context"
	"maps"
	"strings"
	"testing"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/experimental/carry"
	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
	"github.com/keyturn/keyturn/middleware/asynq/experimental/asynqcarry"
	"github.com/keyturn/keyturn/store/redisstore"
)

// A producer that waits for its task, under the lock that the task takes.
func TestTaskUnderTheEnqueuersLease(t *testing.T) {
	q := newQueue(t)
	onRedis := func() *core.Engine {
		client := q.redis.Client()
		store, err := redisstore.New(client)
		if err != nil {
			t.Fatal(err)
		}
		return engine(t, store, core.WithHooks(seeLeases))
	}
	producer := onRedis()
	l := locks(t, onRedis(), lockasynq.Serialize("t", "user:{payload.id}", core.WithFailFast()).OnConflict(lockasynq.Fail))
	depths := make(chan int, 10)
	work := l.Middleware(handler(func(ctx context.Context, _ *asynq.Task) error {
		depths <- leaseSeen(ctx).Depth()
		return nil
	}))
	believing := asynqcarry.Accept(work)
	q.serve(handler(func(ctx context.Context, task *asynq.Task) error {
		if task.Headers()["server"] == "deaf" {
			return work.ProcessTask(ctx, task)
		}
		return believing.ProcessTask(ctx, task)
	}))
	enqueue := func(headers map[string]string) string {
		return q.enqueueTask(asynq.NewTaskWithHeaders("t", []byte(`{"id":42}`), headers), asynq.MaxRetry(0))
	}

	var stale string
	err := producer.Do(context.Background(), "user:42", func(ctx context.Context) error {
		given := map[string]string{"a": "b"}
		headers := asynqcarry.Headers(ctx, given)
		if !maps.Equal(given, map[string]string{"a": "b"}) || headers["a"] != "b" || headers[carry.Header] == "" {
			t.Errorf("%v, %v", given, headers)
		}
		stale = headers[carry.Header]
		q.become(enqueue(headers), asynq.TaskStateCompleted)
		if depth := receive(t, "the task", depths); depth != 2 {
			t.Errorf("at depth %d", depth)
		}
		lease, _ := core.LeaseFrom(ctx)
		id := lease.Owner()[len(lease.Owner())-32:]
		forged := strings.Replace(stale, id, strings.Repeat("0", 32), 1)
		for name, headers := range map[string]map[string]string{
			"only the producer": {carry.Header: stale, "server": "deaf"},
			"only the worker":   nil,
			"forged":            {carry.Header: forged},
			"malformed":         {carry.Header: "x"},
		} {
			if info := q.become(enqueue(headers), asynq.TaskStateArchived); !strings.Contains(info.LastErr, "held by another") {
				t.Errorf("%s: %s", name, info.LastErr)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	// Processed when its enqueuer is through: it takes its turn.
	lease := hold(t, producer, "user:42")
	q.become(enqueue(map[string]string{carry.Header: stale}), asynq.TaskStateArchived)
	if err := lease.Release(context.Background()); err != nil {
		t.Error(err)
	}
	q.become(enqueue(map[string]string{carry.Header: stale}), asynq.TaskStateCompleted)
	if depth := receive(t, "the task", depths); depth != 1 {
		t.Errorf("at depth %d", depth)
	}
	if headers := asynqcarry.Headers(context.Background(), nil); len(headers) != 0 {
		t.Errorf("nothing to carry: %v", headers)
	}
}
