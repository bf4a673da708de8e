package lockasynq_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/locktest"
	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
)

// TestTasksOfOneKeyRunOneAtATime on two servers, and each is carried out once.
func TestTasksOfOneKeyRunOneAtATime(t *testing.T) {
	t.Parallel()
	const tasks, keys = 60, 3
	q := newQueue(t)
	l := locks(t, engine(t), lockasynq.Serialize("im:status", "user:status:{payload.user_id}"))
	section := locktest.NewSection(t)
	h := l.Middleware(handler(func(ctx context.Context, _ *asynq.Task) error {
		lease, _ := core.LeaseFrom(ctx)
		defer section.Enter(lease.Key())()
		time.Sleep(2 * time.Millisecond) // the work: long enough to be overlapped
		return nil
	}))
	var ids []string
	for i := range tasks {
		ids = append(ids, q.enqueue("im:status", fmt.Sprintf(`{"user_id":%d}`, i%keys)))
	}
	q.serve(h)
	q.serve(h)
	for _, id := range ids {
		q.completed(id)
	}
	for user := range keys {
		if n := section.Entered(fmt.Sprint("user:status:", user)); n != tasks/keys {
			t.Errorf("%d tasks of user %d were carried out, want %d", n, user, tasks/keys)
		}
	}
}

// TestRescheduledTasksComeAgain more often than they have retries, of which none is used up, until the key is free.
func TestRescheduledTasksComeAgain(t *testing.T) {
	t.Parallel()
	q, eng := newQueue(t), engine(t)
	lease := hold(t, eng, "k")
	times := make(chan int, 10)
	q.serve(locks(t, eng, lockasynq.Serialize("t", "k", core.WithFailFast())).Middleware(handler(succeed)), func(cfg *asynq.Config) {
		cfg.RetryDelayFunc = func(_ int, err error, _ *asynq.Task) time.Duration {
			var again *lockasynq.RescheduleError
			if !errors.As(err, &again) {
				t.Errorf("error = %v, want a RescheduleError", err)
				return 0
			}
			times <- again.Times
			return 0 // the test is in a hurry
		}
	})
	id := q.enqueue("t", "", asynq.MaxRetry(1))
	for want := 1; want <= 4; want++ {
		if got := receive(t, "a rescheduling", times); got != want {
			t.Errorf("the error says %d times, want %d", got, want)
		}
	}
	must(t, lease.Release(context.Background()))
	info := q.completed(id)
	if all, err := q.inspector.GetQueueInfo("default"); err != nil || all.Failed != 0 || info.Retried != 0 {
		t.Errorf("%d retries were used up, %d failures, %v", info.Retried, all.Failed, err)
	}
}
