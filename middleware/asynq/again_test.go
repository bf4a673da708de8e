package lockasynq_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/core"
	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
)

func TestRetryDelayGrowsForTheSameTask(t *testing.T) {
	t.Parallel()
	delay := lockasynq.RetryDelay(nil)
	for _, tt := range []struct {
		after time.Duration
		times int
		least time.Duration
	}{
		{0, 0, time.Second},
		{0, 1, time.Second},
		{0, 2, 2 * time.Second},
		{0, 5, 16 * time.Second},
		{0, 7, time.Minute},
		{0, 1 << 40, time.Minute},
		{3 * time.Second, 2, 6 * time.Second},
		{24 * time.Hour, 1, 10 * time.Second},
		{24 * time.Hour, 3, 40 * time.Second},
		{24 * time.Hour, 4, time.Minute},
	} {
		seen := make(map[time.Duration]bool)
		for range 50 {
			d := delay(0, &lockasynq.RescheduleError{RetryAfter: tt.after, Times: tt.times, Err: core.ErrHeld}, nil)
			if d < tt.least || d > tt.least*3/2 {
				t.Fatalf("after %v, for the %d. time: delay %v, want %v and up to half more", tt.after, tt.times, d, tt.least)
			}
			seen[d] = true
		}
		if len(seen) < 2 {
			t.Errorf("after %v, for the %d. time: every delay is the same", tt.after, tt.times)
		}
	}
}

// Asynq's retry count stays 0 however often a task is rescheduled; ours grows,
// and so does the time between its attempts on a server.
func TestReschedulingsOfATaskAreCounted(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	eng := engine(t, nil)
	knowShortHolds(t, eng)
	lease := hold(t, eng, "k")
	l := locks(t, eng, lockasynq.Serialize("t", "k", core.WithFailFast()))
	delays := make(chan time.Duration, 10)
	times := make(chan int, 10)
	ours := lockasynq.RetryDelay(nil)
	q.serve(l.Middleware(handler(succeed)), func(cfg *asynq.Config) {
		cfg.RetryDelayFunc = func(n int, err error, task *asynq.Task) time.Duration {
			var again *lockasynq.RescheduleError
			if !errors.As(err, &again) {
				t.Errorf("error = %v, want a RescheduleError", err)
				return 0
			}
			times <- again.Times
			delays <- ours(n, err, task)
			return 0 // the test is in a hurry
		}
	})
	id := q.enqueue("t", "", asynq.MaxRetry(1))
	last := time.Duration(0)
	for want := 1; want <= 4; want++ {
		if n := receive(t, "a rescheduling", times); n != want {
			t.Errorf("the error says %d times, want %d", n, want)
		}
		d := receive(t, "a delay", delays)
		if d <= last {
			t.Errorf("delay %v after one of %v, want it to grow", d, last)
		}
		last = d
	}
	if err := lease.Release(context.Background()); err != nil {
		t.Fatal(err)
	}
	if info := q.become(id, asynq.TaskStateCompleted); info.Retried != 0 {
		t.Errorf("%d retries were used up, want 0", info.Retried)
	}
}

// Each task has its own count, which starts over when it had its turn.
func TestReschedulingsInARow(t *testing.T) {
	contexts := []context.Context{metadata(t, asynq.TaskID("a")), metadata(t, asynq.TaskID("b")), context.Background()}
	synctest.Test(t, func(t *testing.T) {
		eng := engine(t, nil)
		failure := errors.New("the handler's")
		h := locks(t, eng, lockasynq.Serialize("t", "k", core.WithFailFast())).
			Middleware(handler(func(context.Context, *asynq.Task) error { return failure }))
		process := func(task int) string {
			err := h.ProcessTask(contexts[task], asynq.NewTask("t", nil))
			var again *lockasynq.RescheduleError
			if errors.As(err, &again) {
				return fmt.Sprint("again ", again.Times)
			}
			return err.Error()
		}
		expect := func(task int, want string) {
			t.Helper()
			if got := process(task); got != want {
				t.Errorf("task %d: %s, want %s", task, got, want)
			}
		}
		lease := hold(t, eng, "k")
		expect(0, "again 1")
		expect(0, "again 2")
		expect(1, "again 1")
		expect(2, "again 0") // nobody knows which task it is
		expect(2, "again 0")
		expect(0, "again 3")
		_ = lease.Release(context.Background())
		expect(0, failure.Error())
		hold(t, eng, "k")
		expect(0, "again 1")
		expect(1, "again 2")
		for range 300 {
			process(1)
		}
		expect(1, "again 255") // as far as it counts
	})
}
