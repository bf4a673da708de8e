package lockasynq_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/internal/redistest"
	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
	"github.com/keyturn/keyturn/store/memstore"
)

func TestMain(m *testing.M) {
	actAsWorker()
	goleak.VerifyTestMain(m)
}

// patience is for what has to happen; a busy machine may need seconds.
const patience = time.Minute

// queue is one Redis with tasks on it.
type queue struct {
	t         *testing.T
	redis     *redistest.Server
	client    *asynq.Client
	inspector *asynq.Inspector
}

func newQueue(t *testing.T) *queue {
	t.Helper()
	q := &queue{t: t, redis: redistest.Start(t)}
	opt := asynq.RedisClientOpt{Addr: q.redis.Addr()}
	q.client, q.inspector = asynq.NewClient(opt), asynq.NewInspector(opt)
	t.Cleanup(func() {
		_ = q.client.Close()
		_ = q.inspector.Close()
	})
	return q
}

// enqueue adds a task. It stays visible when it is done.
func (q *queue) enqueue(typename, payload string, opts ...asynq.Option) string {
	q.t.Helper()
	return q.enqueueTask(asynq.NewTask(typename, []byte(payload)), opts...)
}

func (q *queue) enqueueTask(task *asynq.Task, opts ...asynq.Option) string {
	q.t.Helper()
	info, err := q.client.Enqueue(task, append([]asynq.Option{asynq.Retention(time.Hour)}, opts...)...)
	if err != nil {
		q.t.Fatal(err)
	}
	return info.ID
}

func (q *queue) info(id string) *asynq.TaskInfo {
	q.t.Helper()
	info, err := q.inspector.GetTaskInfo("default", id)
	if err != nil {
		q.t.Fatal(err)
	}
	return info
}

// become waits until the task is in the state. A task that went where it can't
// come back from fails at once.
func (q *queue) become(id string, state asynq.TaskState) *asynq.TaskInfo {
	q.t.Helper()
	var info *asynq.TaskInfo
	await(q.t, "the task to be "+state.String(), func() bool {
		info = q.info(id)
		final := info.State == asynq.TaskStateArchived || info.State == asynq.TaskStateCompleted
		if final && info.State != state {
			q.t.Fatalf("task is %v (last error: %s), want %v", info.State, info.LastErr, state)
		}
		return info.State == state
	})
	return info
}

// left waits until asynq is done with an attempt.
func (q *queue) left(id string) *asynq.TaskInfo {
	q.t.Helper()
	var info *asynq.TaskInfo
	await(q.t, "the attempt to end", func() bool {
		info = q.info(id)
		return info.State != asynq.TaskStatePending && info.State != asynq.TaskStateActive
	})
	return info
}

// serve starts an asynq server that polls fast and retries at once. It returns
// a function that shuts it down; the end of the test does so too.
func (q *queue) serve(h asynq.Handler, change ...func(*asynq.Config)) (shutdown func()) {
	q.t.Helper()
	cfg := asynq.Config{
		Concurrency:              8,
		TaskCheckInterval:        10 * time.Millisecond,
		DelayedTaskCheckInterval: 50 * time.Millisecond,
		ShutdownTimeout:          100 * time.Millisecond,
		LogLevel:                 asynq.FatalLevel,
		IsFailure:                lockasynq.IsFailure(nil),
		RetryDelayFunc:           lockasynq.RetryDelay(atOnce),
	}
	for _, c := range change {
		c(&cfg)
	}
	srv := asynq.NewServer(asynq.RedisClientOpt{Addr: q.redis.Addr()}, cfg)
	if err := srv.Start(h); err != nil {
		q.t.Fatal(err)
	}
	q.t.Cleanup(srv.Shutdown)
	return srv.Shutdown
}

// metadata returns a context with what asynq knows of a task enqueued with
// opts, and without an end, for tests in which time does not pass by itself.
func metadata(t *testing.T, opts ...asynq.Option) context.Context {
	t.Helper()
	q, got := newQueue(t), make(chan context.Context, 1)
	shutdown := q.serve(handler(func(ctx context.Context, _ *asynq.Task) error {
		got <- context.WithoutCancel(ctx)
		return nil
	}))
	defer shutdown()
	q.enqueue("t", "", opts...)
	return receive(t, "a task's context", got)
}

func atOnce(int, error, *asynq.Task) time.Duration { return 0 }

// noForwarding leaves tasks that are to be retried where they can be looked at.
func noForwarding(cfg *asynq.Config) { cfg.DelayedTaskCheckInterval = time.Hour }

// await polls: a real server has no other way to say how far it is.
func await(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for %s", patience, what)
		}
	}
}

// receive waits for a signal from a handler.
func receive[T any](t testing.TB, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("waited %v for %s", patience, what)
		panic("not reached")
	}
}

// engine makes an engine that outlives the test's servers; store is a new
// memstore if nil.
func engine(t testing.TB, store driver.Store, opts ...core.EngineOption) *core.Engine {
	t.Helper()
	if store == nil {
		store = memstore.New()
	}
	eng, err := core.New(store, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := eng.Close(ctx); err != nil {
			t.Errorf("engine: %v", err)
		}
	})
	return eng
}

func locks(t testing.TB, eng *core.Engine, rules ...lockasynq.Rule) *lockasynq.Locks {
	t.Helper()
	l, err := lockasynq.New(eng, rules...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// hold takes key as somebody else would.
func hold(t testing.TB, eng *core.Engine, key string) *core.Lease {
	t.Helper()
	lease, err := eng.Acquire(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lease.Release(context.Background()) })
	return lease
}

// watcher says when a task begins to ask for its key, how that ended, and how
// the lease did.
type watcher struct {
	asks        chan string
	ends, holds chan error
}

func newWatcher() *watcher {
	return &watcher{asks: make(chan string, 1000), ends: make(chan error, 1000), holds: make(chan error, 1000)}
}

func (w *watcher) hooks() observe.Hooks {
	return observe.Hooks{AcquireStart: w.AcquireStart, AcquireEnd: w.AcquireEnd, HoldEnd: w.HoldEnd}
}

func (w *watcher) AcquireStart(ctx context.Context, a observe.Acquisition) context.Context {
	if a.Rule != "" { // not hold's
		w.asks <- a.Claims[0].Key
	}
	return ctx
}

func (w *watcher) AcquireEnd(_ context.Context, a observe.Acquisition, _ observe.Lease, err error) {
	if a.Rule != "" {
		w.ends <- err
	}
}

func (w *watcher) HoldEnd(_ context.Context, l observe.Lease, err error) {
	if l.Rule() != "" {
		w.holds <- err
	}
}

// decode reads a task's payload.
func decode(task *asynq.Task, into any) error { return json.Unmarshal(task.Payload(), into) }

func handler(fn func(context.Context, *asynq.Task) error) asynq.Handler { return asynq.HandlerFunc(fn) }

// seeLeases puts each lease, as hooks see it, into the context of the work under it.
var seeLeases = observe.Hooks{HoldStart: func(ctx context.Context, l observe.Lease) context.Context {
	return context.WithValue(ctx, seenLease{}, l)
}}

type seenLease struct{}

// leaseSeen is the innermost lease that seeLeases has put into ctx.
func leaseSeen(ctx context.Context) observe.Lease { return ctx.Value(seenLease{}).(observe.Lease) }
