package lockasynq_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/core"
	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
)

// TestTasksOfOneKeyRunOneAtATime on two servers, and each is carried out once.
func TestTasksOfOneKeyRunOneAtATime(t *testing.T) {
	t.Parallel()
	const tasks, keys = 60, 3
	q := newQueue(t)
	l := locks(t, engine(t, nil), lockasynq.Serialize("im:status", "user:status:{payload.user_id}"))
	var mu sync.Mutex
	running := make(map[string]int)
	var served [keys]int // what the lock protects; the race detector looks, too
	h := l.Middleware(handler(func(ctx context.Context, task *asynq.Task) error {
		var user int
		if _, err := fmt.Sscanf(string(task.Payload()), `{"user_id":%d}`, &user); err != nil {
			return err
		}
		lease, _ := core.LeaseFrom(ctx)
		mu.Lock()
		if running[lease.Key()]++; running[lease.Key()] > 1 {
			t.Errorf("a task of %s ran beside another", lease.Key())
		}
		mu.Unlock()
		served[user]++
		time.Sleep(2 * time.Millisecond) // the work: long enough to be overlapped
		mu.Lock()
		running[lease.Key()]--
		mu.Unlock()
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
	for user, n := range served {
		if n != tasks/keys {
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
