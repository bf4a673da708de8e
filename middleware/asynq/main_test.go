package lockasynq_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	"github.com/keyturn/keyturn/internal/redistest"
	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
	"github.com/keyturn/keyturn/store/memstore"
)

var must, check, wantNil, wantIs = checktest.Must, checktest.That, checktest.WantNil, checktest.WantIs

func TestMain(m *testing.M) {
	actAsWorker()
	goleak.VerifyTestMain(m)
}

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

// in is the queue for a test within q's.
func (q *queue) in(t *testing.T) *queue {
	c := *q
	c.t = t
	return &c
}

// enqueue adds a task. It stays visible when it is done.
func (q *queue) enqueue(typename, payload string, opts ...asynq.Option) string {
	q.t.Helper()
	info, err := q.client.Enqueue(asynq.NewTask(typename, []byte(payload)), append([]asynq.Option{asynq.Retention(time.Hour)}, opts...)...)
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

// completed waits until the task is done. One that is archived fails at once.
func (q *queue) completed(id string) *asynq.TaskInfo {
	q.t.Helper()
	var info *asynq.TaskInfo
	ruletest.Until(q.t, "the task to be done", func() bool {
		if info = q.info(id); info.State == asynq.TaskStateArchived {
			q.t.Fatalf("task is archived (last error: %s)", info.LastErr)
		}
		return info.State == asynq.TaskStateCompleted
	})
	return info
}

// drained reports whether no task is left to do.
func (q *queue) drained() bool {
	q.t.Helper()
	info, err := q.inspector.GetQueueInfo("default")
	if err != nil {
		q.t.Fatal(err)
	}
	return info.Pending+info.Active+info.Scheduled+info.Retry == 0
}

// left waits until asynq is done with an attempt.
func (q *queue) left(id string) *asynq.TaskInfo {
	q.t.Helper()
	var info *asynq.TaskInfo
	ruletest.Until(q.t, "the attempt to end", func() bool {
		info = q.info(id)
		return info.State != asynq.TaskStatePending && info.State != asynq.TaskStateActive
	})
	return info
}

// config is that of a server that polls fast and retries at once.
func config() asynq.Config {
	return asynq.Config{
		Concurrency:              8,
		TaskCheckInterval:        10 * time.Millisecond,
		DelayedTaskCheckInterval: 50 * time.Millisecond,
		ShutdownTimeout:          100 * time.Millisecond,
		LogLevel:                 asynq.FatalLevel,
		IsFailure:                lockasynq.IsFailure(nil),
		RetryDelayFunc:           lockasynq.RetryDelay(atOnce),
	}
}

// serve starts an asynq server. It returns a function that shuts it down; the end of the test does so too.
func (q *queue) serve(h asynq.Handler, change ...func(*asynq.Config)) (shutdown func()) {
	q.t.Helper()
	cfg := config()
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

// contexts are those of metadata, by their options: a Redis and a server for each kind are enough.
var contexts = struct {
	sync.Mutex
	of map[string]context.Context
}{of: make(map[string]context.Context)}

// metadata returns a context with what asynq knows of a task enqueued with
// opts, and without an end, for tests in which time does not pass by itself.
func metadata(t *testing.T, opts ...asynq.Option) context.Context {
	t.Helper()
	contexts.Lock()
	defer contexts.Unlock()
	name := fmt.Sprint(opts)
	if contexts.of[name] == nil {
		q, got := newQueue(t), make(chan context.Context, 1)
		defer q.serve(handler(func(ctx context.Context, _ *asynq.Task) error {
			got <- context.WithoutCancel(ctx)
			return nil
		}))()
		q.enqueue("t", "", opts...)
		contexts.of[name] = ruletest.Receive(t, "a task's context", got)
	}
	return contexts.of[name]
}

func atOnce(int, error, *asynq.Task) time.Duration { return 0 }

// noForwarding leaves tasks that are to be retried where they can be looked at.
func noForwarding(cfg *asynq.Config) { cfg.DelayedTaskCheckInterval = time.Hour }

// engine makes an engine that outlives the test's servers.
func engine(t testing.TB, opts ...core.EngineOption) *core.Engine {
	t.Helper()
	return ruletest.NewEngine(t, memstore.New(), opts...)
}

func locks(t testing.TB, eng *core.Engine, rules ...lockasynq.Rule) *lockasynq.Locks {
	t.Helper()
	l, err := lockasynq.New(eng, rules...)
	must(t, err)
	return l
}

func hold(t testing.TB, eng *core.Engine, key string) *core.Lease {
	t.Helper()
	lease, err := eng.Acquire(context.Background(), key)
	must(t, err)
	t.Cleanup(func() { _ = lease.Release(context.Background()) })
	return lease
}

// watched is an engine that says when a task begins to ask for its key, and how that ended.
func watched(t *testing.T) (eng *core.Engine, asks chan string, ends chan error) {
	asks, ends = make(chan string, 1000), make(chan error, 1000)
	return engine(t, core.WithHooks(observe.Hooks{
		AcquireStart: func(ctx context.Context, a observe.Acquisition) context.Context {
			if a.Rule != "" { // not hold's
				asks <- a.Claims[0].Key
			}
			return ctx
		},
		AcquireEnd: func(_ context.Context, a observe.Acquisition, _ observe.Lease, err error) {
			if a.Rule != "" {
				ends <- err
			}
		},
	})), asks, ends
}

func handler(fn func(context.Context, *asynq.Task) error) asynq.Handler { return asynq.HandlerFunc(fn) }

func succeed(context.Context, *asynq.Task) error { return nil }

// process has a worker take a task.
func process(ctx context.Context, h asynq.Handler, typename, payload string) error {
	return h.ProcessTask(ctx, asynq.NewTask(typename, []byte(payload)))
}

// holds has the key for a while.
func holds(t testing.TB, eng *core.Engine, d time.Duration) {
	t.Helper()
	lease := hold(t, eng, "k")
	time.AfterFunc(d, func() { _ = lease.Release(context.Background()) })
}

// nothingRuns is a handler under l that must not be called.
func nothingRuns(t *testing.T, l *lockasynq.Locks) asynq.Handler {
	return l.Middleware(handler(func(_ context.Context, task *asynq.Task) error {
		t.Errorf("the handler of %q ran", task.Type())
		return nil
	}))
}

// claimsUnder returns the claims under which l runs a task; "none": it runs without a lease.
func claimsUnder(ctx context.Context, l *lockasynq.Locks, task *asynq.Task) (claims []string, err error) {
	err = l.Middleware(handler(func(ctx context.Context, _ *asynq.Task) error {
		lease, ok := core.LeaseFrom(ctx)
		if !ok {
			claims = []string{"none"}
			return nil
		}
		for _, c := range lease.Claims() {
			claims = append(claims, fmt.Sprint(c.Mode, " ", c.Key))
		}
		return nil
	})).ProcessTask(ctx, task)
	return claims, err
}

// isAgain reports whether asynq is told that the task has to come again.
func isAgain(err error) bool {
	var again *lockasynq.RescheduleError
	return errors.As(err, &again)
}

// wantText fails unless text has each of want.
func wantText(t testing.TB, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		check(t, strings.Contains(text, w), "%q is not in %s", w, text)
	}
}

func captureLog(t *testing.T) *bytes.Buffer {
	var log bytes.Buffer
	ruletest.LogTo(t, &log)
	return &log
}
