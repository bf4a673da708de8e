package lockasynq_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/locktest"
	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
)

// offer enqueues a task with its rule's id, and says whether asynq took it.
func (q *queue) offer(l *lockasynq.Locks, task *asynq.Task, opts ...asynq.Option) bool {
	q.t.Helper()
	id, err := l.TaskID(context.Background(), task)
	if err != nil {
		q.t.Fatal(err)
	}
	_, err = q.client.Enqueue(task, append(opts, id)...)
	if err != nil && !lockasynq.IsDuplicate(err) {
		q.t.Fatal(err)
	}
	return err == nil
}

// A task that waits makes others duplicates. A task that runs does not, also when it comes
// again.
func TestUniqueUntilStarted(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	eng := engine(t)
	l := locks(t, eng, lockasynq.Serialize("t", "k:{payload.id}").UniqueUntilStarted())
	offer := func(id, payload int, want bool) {
		t.Helper()
		task := asynq.NewTask("t", fmt.Appendf(nil, `{"id":%d,"payload":%d}`, id, payload))
		if took := q.offer(l, task, asynq.Retention(time.Hour)); took != want {
			t.Errorf("key %d, payload %d: taken %t, want %t", id, payload, took, want)
		}
	}
	offer(1, 1, true)
	offer(1, 2, false)
	offer(2, 1, true)
	running, goOn := make(chan string), make(chan error)
	q.serve(l.Middleware(handler(func(_ context.Context, task *asynq.Task) error {
		running <- string(task.Payload())
		return <-goOn
	})), func(cfg *asynq.Config) { cfg.Concurrency = 1 })
	runs := func(want string) {
		t.Helper()
		if got := receive(t, "a run", running); got != want {
			t.Errorf("%s runs, want %s", got, want)
		}
	}
	runs(`{"id":1,"payload":1}`)
	offer(1, 3, true)
	offer(1, 4, false)
	offer(2, 2, false) // still waits
	goOn <- errors.New("again")
	runs(`{"id":2,"payload":1}`)
	goOn <- nil
	runs(`{"id":1,"payload":3}`)
	offer(1, 5, true)
	goOn <- nil
	for range 2 { // the one that failed, and the last
		receive(t, "a run", running)
		goOn <- nil
	}
	await(t, "the queue to be empty", q.drained)
	offer(1, 6, true) // though all before are kept
	runs(`{"id":1,"payload":6}`)
	goOn <- nil
}

// A task that was refused its key has not started; one on its last attempt has, as
// asynq archives it if it does not get the key.
func TestUniqueUntilStartedWhileTheKeyIsHeld(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		retries int
		second  bool
	}{"rescheduled": {5, false}, "on the last attempt": {0, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newQueue(t)
			eng, asks, _ := watched(t)
			l := locks(t, eng, lockasynq.Serialize("t", "k", core.WithFailFast()).RescheduleEvery(time.Second).UniqueUntilStarted())
			lease := hold(t, eng, "k")
			ran := make(chan struct{}, 10)
			q.serve(l.Middleware(handler(func(context.Context, *asynq.Task) error { ran <- struct{}{}; return nil })))
			task := asynq.NewTask("t", nil)
			if !q.offer(l, task, asynq.MaxRetry(tt.retries)) {
				t.Error("the first was not taken")
			}
			receive(t, "the task to ask for its key", asks)
			if took := q.offer(l, task, asynq.MaxRetry(5)); took != tt.second {
				t.Errorf("the second was taken: %t, want %t", took, tt.second)
			}
			_ = lease.Release(context.Background())
			receive(t, "a run", ran)
			await(t, "the queue to be empty", q.drained)
		})
	}
}

// While the store is out nothing starts, as the next change would be lost, and
// producers are told.
func TestUniqueUntilStartedInAnOutage(t *testing.T) {
	t.Parallel()
	kit := locktest.New(t)
	l := locks(t, kit.Engine, lockasynq.Serialize("t", "k").UniqueUntilStarted())
	kit.Store.Refuse()
	if _, err := l.TaskID(context.Background(), asynq.NewTask("t", nil)); !errors.Is(err, core.ErrUnavailable) {
		t.Errorf("TaskID: %v", err)
	}
	if err := process(metadata(t, asynq.TaskID("t/k/5")), nothingRuns(t, l), "t", ""); !isAgain(err) {
		t.Errorf("error = %v, want it rescheduled", err)
	}
}

// A task that was enqueued with an id of its own, or none, is no reason to fail, nor
// to start another's. The log says once that the rule does nothing for such tasks.
func TestUniqueUntilStartedWithOtherIDs(t *testing.T) {
	log := captureLog(t)
	eng := engine(t)
	l := locks(t, eng, lockasynq.Serialize("t", "k").UniqueUntilStarted())
	q, ran := newQueue(t), 0
	h := l.Middleware(handler(func(context.Context, *asynq.Task) error { ran++; return nil }))
	first, err := l.TaskID(context.Background(), asynq.NewTask("t", nil))
	must(t, err)
	q.serve(h)
	ids := []string{"other", "t/k/", "t/k/x", "t/k/5/7", "t/other/99999999999999999"}
	for _, id := range ids {
		q.completed(q.enqueue("t", "", asynq.TaskID(id)))
	}
	wantNil(t, process(context.Background(), h, "t", ""))
	if again, err := l.TaskID(context.Background(), asynq.NewTask("t", nil)); err != nil || again.String() != first.String() || ran != len(ids)+1 {
		t.Errorf("%v and %v, %v; %d ran", first, again, err, ran)
	}
	if strings.Count(log.String(), "without Locks.TaskID") != 1 {
		t.Errorf("log = %s, want one warning", log)
	}
}
