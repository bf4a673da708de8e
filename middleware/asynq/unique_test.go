package lockasynq_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	"github.com/keyturn/keyturn/keytmpl"
	"github.com/keyturn/keyturn/locktest"
	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
	"github.com/keyturn/keyturn/store/memstore"
)

// An id is of one rule and one key, or there is none.
func TestTaskID(t *testing.T) {
	t.Parallel()
	l := locks(t, engine(t),
		lockasynq.Once("im:message", "msg:{payload.id}"),
		lockasynq.Once("by:id", "{id}"),
		lockasynq.Once("by:queue", "{queue}"),
		lockasynq.Serialize("im:status", "{payload.id}"),
		lockasynq.Once("img", "resize/{payload.id}"),
		lockasynq.Once("img/resize", "{payload.id}"),
		lockasynq.Once("shadow", "{payload.id}", core.WithShadow()),
	)
	for _, tt := range []struct {
		name string
		task *asynq.Task
		is   error
		says string
	}{
		{name: "no task", says: "want a task"},
		{name: "no rule", task: asynq.NewTask("other", nil), says: `"other"`},
		{name: "tasks that take turns", task: asynq.NewTask("im:status", []byte(`{"id":1}`)), says: "processed once"},
		{name: "no key", task: asynq.NewTask("im:message", []byte(`{}`)), is: keytmpl.ErrMissingValue},
		{name: "no key of a shadow", task: asynq.NewTask("shadow", []byte(`{}`)), is: keytmpl.ErrMissingValue},
		{name: "not JSON", task: asynq.NewTask("im:message", nil), says: "not JSON"},
		{name: "a key with the id", task: asynq.NewTask("by:id", nil), is: keytmpl.ErrMissingValue},
		{name: "a key with the queue", task: asynq.NewTask("by:queue", nil), is: keytmpl.ErrMissingValue},
	} {
		option, err := l.TaskID(context.Background(), tt.task)
		if err == nil || option != nil || !strings.Contains(err.Error(), tt.says) || tt.is != nil && !errors.Is(err, tt.is) {
			t.Errorf("%s: TaskID() = %v, %v; want an error that matches %v and has %q", tt.name, option, err, tt.is, tt.says)
		}
	}
	one, err := l.TaskID(context.Background(), asynq.NewTask("img", []byte(`{"id":1}`)))
	must(t, err)
	other, err := l.TaskID(context.Background(), asynq.NewTask("img/resize", []byte(`{"id":1}`)))
	check(t, err == nil && one.String() != other.String(), "two rules have the ids %v and %v, %v", one, other, err)
}

func TestIsDuplicate(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]bool{
		fmt.Errorf("enqueue: %w", asynq.ErrDuplicateTask): true,
		asynq.ErrTaskIDConflict:                           true,
		errors.New("connection refused"):                  false,
		nil:                                               false,
	} {
		check(t, lockasynq.IsDuplicate(err) == want, "IsDuplicate(%v), want %v", err, want)
	}
}

// A gateway that may get a message twice: what is still queued is not queued
// again, and what was processed is not processed again.
func ExampleLocks_TaskID() {
	eng, _ := core.New(memstore.New()) // only the key is made here, nothing is locked
	defer eng.Close(context.Background())
	locks, _ := lockasynq.New(eng,
		lockasynq.Once("im:message", "msg:{payload.id}", core.WithRetention(24*time.Hour)),
	)
	task := asynq.NewTask("im:message", []byte(`{"id":"8f2c","text":"hello"}`))
	id, err := locks.TaskID(context.Background(), task)
	if err != nil {
		log.Fatal(err) // the message has no id
	}
	fmt.Println(id)

	enqueue := func(client *asynq.Client) error {
		_, err := client.Enqueue(task, id)
		if lockasynq.IsDuplicate(err) {
			return nil // the other gateway was faster
		}
		return err
	}
	_ = enqueue
	// Output: TaskID("im:message/msg:8f2c")
}

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

// A task that waits makes others duplicates. A task that runs does not, also when it comes again.
func TestUniqueUntilStarted(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	eng := engine(t)
	l := locks(t, eng, lockasynq.Serialize("t", "k:{payload.id}").UniqueUntilStarted())
	offer := func(id, payload int, want bool) {
		t.Helper()
		task := asynq.NewTask("t", fmt.Appendf(nil, `{"id":%d,"payload":%d}`, id, payload))
		took := q.offer(l, task, asynq.Retention(time.Hour))
		check(t, took == want, "key %d, payload %d: taken %t, want %t", id, payload, took, want)
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
		got := ruletest.Receive(t, "a run", running)
		check(t, got == want, "%s runs, want %s", got, want)
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
		ruletest.Receive(t, "a run", running)
		goOn <- nil
	}
	ruletest.Until(t, "the queue to be empty", q.drained)
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
			check(t, q.offer(l, task, asynq.MaxRetry(tt.retries)), "the first was not taken")
			ruletest.Receive(t, "the task to ask for its key", asks)
			took := q.offer(l, task, asynq.MaxRetry(5))
			check(t, took == tt.second, "the second was taken: %t, want %t", took, tt.second)
			_ = lease.Release(context.Background())
			ruletest.Receive(t, "a run", ran)
			ruletest.Until(t, "the queue to be empty", q.drained)
		})
	}
}

// While the store is out nothing starts, as the next change would be lost, and producers are told.
func TestUniqueUntilStartedInAnOutage(t *testing.T) {
	t.Parallel()
	kit := locktest.New(t)
	l := locks(t, kit.Engine, lockasynq.Serialize("t", "k").UniqueUntilStarted())
	kit.Store.Refuse()
	wantIs(t, "TaskID", checktest.ErrorOf(l.TaskID(context.Background(), asynq.NewTask("t", nil))), core.ErrUnavailable)
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
	check(t, strings.Count(log.String(), "without Locks.TaskID") == 1, "log = %s, want one warning", log)
}
