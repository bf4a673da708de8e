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
	l := locks(t, engine(t, nil), lockasynq.Serialize("im:status", "user:status:{payload.user_id}"))
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
		q.become(id, asynq.TaskStateCompleted)
	}
	for user := range keys {
		if n := section.Entered(fmt.Sprint("user:status:", user)); n != tasks/keys {
			t.Errorf("%d tasks of user %d were carried out, want %d", n, user, tasks/keys)
		}
	}
}

// TestRescheduledTasksComeAgain more often than they have retries, of which none is used up, until the key is free.
// The delay grows, or is the rule's own.
func TestRescheduledTasksComeAgain(t *testing.T) {
	t.Parallel()
	failFast := core.WithFailFast()
	for name, tt := range map[string]struct {
		rule  lockasynq.Rule
		fixed time.Duration
	}{
		"grows":        {lockasynq.Serialize("t", "k", failFast), 0},
		"is the rules": {lockasynq.Serialize("t", "k", failFast).RescheduleEvery(7 * time.Second), 7 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q, eng := newQueue(t), engine(t, nil)
			// The engine has seen how short a hold is, so delays begin with the shortest.
			if err := eng.Do(context.Background(), "short", func(context.Context) error { return nil }); err != nil {
				t.Fatal(err)
			}
			lease := hold(t, eng, "k")
			type told struct {
				delay time.Duration
				times int
			}
			tells := make(chan told, 10)
			ours := lockasynq.RetryDelay(nil)
			q.serve(locks(t, eng, tt.rule).Middleware(handler(succeed)), func(cfg *asynq.Config) {
				cfg.RetryDelayFunc = func(n int, err error, task *asynq.Task) time.Duration {
					var again *lockasynq.RescheduleError
					if !errors.As(err, &again) {
						t.Errorf("error = %v, want a RescheduleError", err)
						return 0
					}
					tells <- told{ours(n, err, task), again.Times}
					return 0 // the test is in a hurry
				}
			})
			id := q.enqueue("t", "", asynq.MaxRetry(1))
			last := time.Duration(0)
			for want := 1; want <= 4; want++ {
				got := receive(t, "a rescheduling", tells)
				if got.times != want {
					t.Errorf("the error says %d times, want %d", got.times, want)
				}
				if tt.fixed == 0 && got.delay <= last || tt.fixed > 0 && got.delay != tt.fixed {
					t.Errorf("delay %v after one of %v", got.delay, last)
				}
				last = got.delay
			}
			if err := lease.Release(context.Background()); err != nil {
				t.Fatal(err)
			}
			info := q.become(id, asynq.TaskStateCompleted)
			if all, err := q.inspector.GetQueueInfo("default"); err != nil || all.Failed != 0 || info.Retried != 0 {
				t.Errorf("%d retries were used up, %d failures, %v", info.Retried, all.Failed, err)
			}
		})
	}
}
