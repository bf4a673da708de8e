package lockasynq_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/core"
	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
)

func TestTasksOfOneKeyRunOneAtATime(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	l := locks(t, engine(t, nil), lockasynq.Serialize("im:status", "user:status:{payload.user_id}"))

	var mu sync.Mutex
	running, overlaps := make(map[string]int), 0
	h := l.Middleware(handler(func(ctx context.Context, task *asynq.Task) error {
		lease, _ := core.LeaseFrom(ctx)
		mu.Lock()
		if running[lease.Key()]++; running[lease.Key()] > 1 {
			overlaps++
		}
		mu.Unlock()
		time.Sleep(5 * time.Millisecond) // the work: long enough to be overlapped
		mu.Lock()
		running[lease.Key()]--
		mu.Unlock()
		return nil
	}))
	var ids []string
	for i := range 60 {
		ids = append(ids, q.enqueue("im:status", fmt.Sprintf(`{"user_id":%d}`, i%3)))
	}
	q.serve(h)
	q.serve(h)
	for _, id := range ids {
		q.become(id, asynq.TaskStateCompleted)
	}
	if overlaps > 0 {
		t.Errorf("%d tasks ran beside another of the same key", overlaps)
	}
	if len(running) != 3 {
		t.Errorf("tasks ran under %d keys, want 3", len(running))
	}
}

// A short wait on the worker beats a round through the forwarder.
func TestConflictWaitsALittleFirst(t *testing.T) {
	t.Parallel()
	q, seen := newQueue(t), newWatcher()
	eng := engine(t, nil, core.WithHooks(seen.hooks()))
	l := locks(t, eng, lockasynq.Serialize("im:status", "k"))
	lease := hold(t, eng, "k")
	q.serve(l.Middleware(handler(succeed)), noForwarding)
	id := q.enqueue("im:status", "")

	receive(t, "the task to ask for its key", seen.asks)
	if err := lease.Release(context.Background()); err != nil {
		t.Fatal(err)
	}
	// Rescheduled, it would stay where it is for an hour.
	q.become(id, asynq.TaskStateCompleted)
}

func TestConflictReschedulesWithoutUsingUpARetry(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		rule lockasynq.Rule
	}{
		{"Serialize", lockasynq.Serialize("im:status", "k", core.WithMaxWait(10*time.Millisecond))},
		{"Serialize, fail fast", lockasynq.Serialize("im:status", "k", core.WithFailFast())},
		{"Once, while the first execution runs", lockasynq.Once("im:status", "k", core.WithFailFast())},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			q, seen := newQueue(t), newWatcher()
			eng := engine(t, nil, core.WithHooks(seen.hooks()))
			knowShortHolds(t, eng)
			l := locks(t, eng, tt.rule)
			lease := hold(t, eng, "k")
			q.serve(l.Middleware(handler(succeed)))
			id := q.enqueue("im:status", "", asynq.MaxRetry(1))

			// More often than it has retries.
			for range 3 {
				if err := receive(t, "a refusal", seen.ends); !errors.Is(err, core.ErrHeld) {
					t.Fatalf("the task's acquisition ended with %v, want ErrHeld", err)
				}
			}
			if err := lease.Release(context.Background()); err != nil {
				t.Fatal(err)
			}
			info := q.become(id, asynq.TaskStateCompleted)
			if info.Retried != 0 {
				t.Errorf("%d retries were used up, want 0", info.Retried)
			}
			failed, err := q.inspector.GetQueueInfo("default")
			if err != nil || failed.Failed != 0 {
				t.Errorf("the queue counts %d failures (%v), want 0", failed.Failed, err)
			}
			host, _ := os.Hostname()
			if !strings.Contains(info.LastErr, `"k"`) || strings.Contains(info.LastErr, lease.Owner()) || strings.Contains(info.LastErr, host) {
				t.Errorf("last error = %q, want the key and nothing about its holder", info.LastErr)
			}
		})
	}
}

// Asynq archives a task whose retries are used up whatever Config.IsFailure
// says: a conflict has to be waited out in the handler.
func TestConflictOnTheLastAttemptWaits(t *testing.T) {
	t.Parallel()
	failure := errors.New("a real failure")
	tests := []struct {
		name     string
		maxRetry int
		rule     lockasynq.Rule
	}{
		{"no retries at all", 0, lockasynq.Serialize("im:status", "k", core.WithMaxWait(time.Millisecond))},
		{"no retries at all, fail fast", 0, lockasynq.Serialize("im:status", "k", core.WithFailFast())},
		{"no retries at all, Once", 0, lockasynq.Once("im:status", "k", core.WithFailFast())},
		{"retries used up", 2, lockasynq.Serialize("im:status", "k", core.WithFailFast())},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			q, seen := newQueue(t), newWatcher()
			eng := engine(t, nil, core.WithHooks(seen.hooks()))
			l := locks(t, eng, tt.rule)
			var lease *core.Lease
			failures := 0
			q.serve(l.Middleware(handler(func(context.Context, *asynq.Task) error {
				if failures == tt.maxRetry {
					return nil
				}
				failures++
				return failure
			})), func(cfg *asynq.Config) {
				cfg.RetryDelayFunc = lockasynq.RetryDelay(func(int, error, *asynq.Task) time.Duration {
					if failures == tt.maxRetry {
						lease = hold(t, eng, "k") // before the last attempt begins
					}
					return 0
				})
			})
			if tt.maxRetry == 0 {
				lease = hold(t, eng, "k")
			}
			id := q.enqueue("im:status", "", asynq.MaxRetry(tt.maxRetry))
			for range tt.maxRetry + 1 {
				receive(t, "the task to ask for its key", seen.asks)
			}
			// Refused at once, as the rules say, it would be archived by now.
			select {
			case err := <-drain(seen.ends, tt.maxRetry):
				t.Fatalf("the last attempt's wait ended with %v while the key was held", err)
			case <-time.After(300 * time.Millisecond):
			}
			if err := lease.Release(context.Background()); err != nil {
				t.Fatal(err)
			}
			if info := q.become(id, asynq.TaskStateCompleted); info.Retried != tt.maxRetry {
				t.Errorf("%d retries were used up, want %d", info.Retried, tt.maxRetry)
			}
		})
	}
}

// drain skips what ended before.
func drain(c chan error, n int) chan error {
	for range n {
		<-c
	}
	return c
}

// The last attempt waits out whatever would be rescheduled, not only a holder.
func TestFullLineOnTheLastAttemptIsWaitedOut(t *testing.T) {
	t.Parallel()
	q, seen := newQueue(t), newWatcher()
	eng := engine(t, nil, core.WithHooks(seen.hooks()), core.WithMaxWaiters(1))
	l := locks(t, eng, lockasynq.Serialize("im:status", "k"))
	lease := hold(t, eng, "k")
	var running atomic.Int32
	q.serve(l.Middleware(handler(func(context.Context, *asynq.Task) error {
		if running.Add(1) > 1 {
			t.Error("two tasks ran at once")
		}
		defer running.Add(-1)
		return nil
	})))
	ids := []string{
		q.enqueue("im:status", "1", asynq.MaxRetry(0)),
		q.enqueue("im:status", "2", asynq.MaxRetry(0)),
	}
	if err := receive(t, "one of two to be refused", seen.ends); !errors.Is(err, core.ErrTooManyWaiters) {
		t.Fatalf("acquisition ended with %v, want ErrTooManyWaiters", err)
	}
	if err := lease.Release(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		q.become(id, asynq.TaskStateCompleted)
	}
}

// A task whose timeout is shorter than the wait must not fail for having
// waited.
func TestWaitLeavesTheTaskHalfOfItsTime(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	eng := engine(t, nil)
	l := locks(t, eng, lockasynq.Serialize("im:status", "k", core.WithMaxWait(core.Forever)))
	hold(t, eng, "k")
	q.serve(l.Middleware(handler(succeed)), noForwarding)
	id := q.enqueue("im:status", "", asynq.Timeout(3*time.Second))

	info := q.become(id, asynq.TaskStateRetry)
	if info.Retried != 0 || !strings.Contains(info.LastErr, "held by another") {
		t.Errorf("task has %d retries used up and the error %q, want 0 and one that says it is held", info.Retried, info.LastErr)
	}
}

// knowShortHolds has the engine expect the key soon, and tasks come back soon.
func knowShortHolds(t *testing.T, eng *core.Engine) {
	t.Helper()
	if err := eng.Do(context.Background(), "short", func(context.Context) error { return nil }); err != nil {
		t.Fatal(err)
	}
}

func succeed(context.Context, *asynq.Task) error { return nil }
