package lockasynq_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/core"
	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
)

// Asynq gives a task up at its timeout while the handler's goroutine goes on.
// The key is that goroutine's until it returns.
func TestKeyIsHeldUntilAnAbandonedHandlerReturns(t *testing.T) {
	t.Parallel()
	q, seen := newQueue(t), newWatcher()
	eng := engine(t, nil, core.WithHooks(seen.hooks()))
	l := locks(t, eng, lockasynq.Serialize("im:status", "k"))
	var first atomic.Bool // returned
	started, proceed := make(chan string, 2), make(chan struct{})
	q.serve(l.Middleware(handler(func(ctx context.Context, task *asynq.Task) error {
		name := string(task.Payload())
		if name == "second" && !first.Load() {
			t.Error("the second handler began before the first had returned")
		}
		started <- name
		if name == "first" {
			<-proceed // without a look at ctx
			first.Store(true)
		}
		return nil
	})))

	id := q.enqueue("im:status", "first", asynq.Timeout(time.Second), asynq.MaxRetry(0))
	receive(t, "the first handler", started)
	receive(t, "its key", seen.asks)
	q.become(id, asynq.TaskStateArchived) // asynq's word on it
	second := q.enqueue("im:status", "second", asynq.MaxRetry(0))
	receive(t, "the second task to ask for the key", seen.asks)
	select {
	case <-started:
		t.Fatal("the second task ran beside the first one's handler")
	case <-time.After(300 * time.Millisecond):
	}
	close(proceed)
	q.become(second, asynq.TaskStateCompleted)
}

// That takes renewals for as long as the handler runs, and not only for as long
// as the task's context lasts.
func TestLeaseIsRenewedUntilAnAbandonedHandlerReturns(t *testing.T) {
	ctx := metadata(t)
	synctest.Test(t, func(t *testing.T) {
		l := locks(t, engine(t, nil), lockasynq.Serialize("t", "k", core.WithMaxWait(core.Forever)))
		began := time.Now()
		abandoned, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		go l.Middleware(handler(func(context.Context, *asynq.Task) error {
			time.Sleep(5 * time.Minute) // ten times the TTL
			return nil
		})).ProcessTask(abandoned, asynq.NewTask("t", nil))
		synctest.Wait()
		err := l.Middleware(handler(succeed)).ProcessTask(ctx, asynq.NewTask("t", nil))
		if err != nil || time.Since(began) != 5*time.Minute {
			t.Errorf("the next handler ran after %v (%v), want 5m", time.Since(began), err)
		}
	})
}

// A task that asynq retries after a timeout meets its own former handler. It
// waits for it like any other, and under Once finds its work done.
func TestRetryWaitsForItsOwnAbandonedHandler(t *testing.T) {
	t.Parallel()
	q, seen := newQueue(t), newWatcher()
	eng := engine(t, nil, core.WithHooks(seen.hooks()))
	l := locks(t, eng, lockasynq.Once("im:message", "msg:{payload.id}"))
	var runs atomic.Int32
	proceed := make(chan struct{})
	q.serve(l.Middleware(handler(func(context.Context, *asynq.Task) error {
		runs.Add(1)
		<-proceed
		return nil
	})))
	id := q.enqueue("im:message", `{"id":1}`, asynq.Timeout(2*time.Second), asynq.MaxRetry(1))
	receive(t, "the task to ask", seen.asks)
	receive(t, "its retry to ask", seen.asks)
	close(proceed)
	if info := q.become(id, asynq.TaskStateCompleted); info.Retried != 1 || runs.Load() != 1 {
		t.Errorf("task completed with %d retries and %d runs of its handler, want 1 and 1", info.Retried, runs.Load())
	}
}

func TestShutdownWhileWaitingRequeues(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]asynq.Option{
		"retries left":    nil,
		"no retries left": {asynq.MaxRetry(0)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q, seen := newQueue(t), newWatcher()
			eng := engine(t, nil, core.WithHooks(seen.hooks()))
			l := locks(t, eng, lockasynq.Serialize("im:status", "k", core.WithMaxWait(time.Hour)))
			lease := hold(t, eng, "k")
			h := l.Middleware(handler(succeed))
			shutdown := q.serve(h)
			id := q.enqueue("im:status", "", opts...)
			receive(t, "the task to ask for its key", seen.asks)

			shutdown()
			if info := q.info(id); info.State != asynq.TaskStatePending || info.Retried != 0 {
				t.Fatalf("after the shutdown the task is %v with %d retries used up, want pending with 0", info.State, info.Retried)
			}
			if err := receive(t, "the wait to end", seen.ends); err == nil {
				t.Fatal("the abandoned wait ended with a lease")
			}
			if err := lease.Release(context.Background()); err != nil {
				t.Fatal(err)
			}
			q.serve(h)
			q.become(id, asynq.TaskStateCompleted)
		})
	}
}

// Closed too early, an engine refuses everything. Even then no task is lost: it
// goes back to its queue when the server follows.
func TestEngineClosedBeforeTheServer(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	eng := engine(t, nil)
	l := locks(t, eng, lockasynq.Serialize("im:status", "k"))
	if err := eng.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{}, 1)
	shutdown := q.serve(handler(func(ctx context.Context, task *asynq.Task) error {
		asked <- struct{}{}
		return l.Middleware(handler(succeed)).ProcessTask(ctx, task)
	}))
	id := q.enqueue("im:status", "", asynq.MaxRetry(0))
	receive(t, "the task to be taken", asked)
	shutdown()
	if info := q.info(id); info.State != asynq.TaskStatePending {
		t.Errorf("after the shutdown the task is %v (%s), want pending", info.State, info.LastErr)
	}
}

// A panic ends the lease and is left to asynq.
func TestPanicFreesTheKey(t *testing.T) {
	t.Parallel()
	for name, rule := range map[string]lockasynq.Rule{
		"Serialize": lockasynq.Serialize("im:status", "k"),
		"Once":      lockasynq.Once("im:status", "k"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newQueue(t)
			eng := engine(t, nil)
			runs := 0
			panics := make(chan bool, 1)
			q.serve(locks(t, eng, rule).Middleware(handler(func(context.Context, *asynq.Task) error {
				if runs++; runs == 1 {
					panic("for this test")
				}
				return nil
			})), func(cfg *asynq.Config) {
				cfg.ErrorHandler = asynq.ErrorHandlerFunc(func(_ context.Context, _ *asynq.Task, err error) {
					panics <- asynq.IsPanicError(err)
				})
			})
			id := q.enqueue("im:status", "")
			if !receive(t, "the panic", panics) {
				t.Error("asynq was told of an error, want a panic")
			}
			if info := q.become(id, asynq.TaskStateCompleted); info.Retried != 1 {
				t.Errorf("%d retries were used up, want 1", info.Retried)
			}
		})
	}
}
