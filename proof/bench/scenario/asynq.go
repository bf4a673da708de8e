package scenario

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"

	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
	"github.com/keyturn/keyturn/proof/bench/stats"
)

const (
	taskType    = "user:status"
	taskWorkers = 16
)

// asynqTasks compares a handler that has a rule with one that has none. It also lets an asynq
// server work on tasks with that handler. The system "none" is the server without keyturn.
func asynqTasks(ctx context.Context, env *Env, store string) (_ []stats.Sample, err error) {
	if store == "none" {
		rate, err := workOff(ctx, env, taskMux())
		return []stats.Sample{rate}, err
	}
	eng, shut, err := env.engine(ctx, store)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, shut()) }()
	locks, err := lockasynq.New(eng, lockasynq.Serialize(taskType, "user:status:{payload.user_id}"))
	if err != nil {
		return nil, err
	}
	figures, err := added(ctx, env.Size, taskCaller(ctx, taskMux()), taskCaller(ctx, taskMux(locks.Middleware)))
	if err != nil {
		return nil, err
	}
	rate, err := workOff(ctx, env, taskMux(locks.Middleware))
	return append(figures, rate), err
}

func taskMux(middleware ...asynq.MiddlewareFunc) *asynq.ServeMux {
	mux := asynq.NewServeMux()
	mux.Use(middleware...)
	mux.HandleFunc(taskType, func(context.Context, *asynq.Task) error { return nil })
	return mux
}

// statusTask is the n-th task. The users take turns.
func statusTask(n int) *asynq.Task {
	return asynq.NewTask(taskType, fmt.Appendf(nil, `{"user_id":%d,"status":"away"}`, n%users))
}

// taskCaller returns a call of the handler, each time for the next user.
func taskCaller(ctx context.Context, handler asynq.Handler) func() error {
	n := 0
	return func() error {
		n++
		return handler.ProcessTask(ctx, statusTask(n))
	}
}

// workOff enqueues tasks and measures how fast a server processes them.
func workOff(ctx context.Context, env *Env, handler asynq.Handler) (_ stats.Sample, err error) {
	rate := stats.Sample{Unit: "tasks/s"}
	if err := env.reset(ctx); err != nil {
		return rate, err
	}
	where := asynq.RedisClientOpt{Addr: env.Addrs[0]}
	client := asynq.NewClient(where)
	defer closing(&err, client)
	// All tasks are there before the server starts, because it looks into an empty queue only
	// once a second.
	err = spread(env.Size.Tasks, func(i int) error {
		_, err := client.EnqueueContext(ctx, statusTask(i))
		return err
	})
	if err != nil {
		return rate, err
	}
	var left atomic.Int64
	left.Store(int64(env.Size.Tasks))
	done := make(chan struct{})
	counting := asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		if err := handler.ProcessTask(ctx, task); err != nil {
			return err
		}
		if left.Add(-1) == 0 {
			close(done)
		}
		return nil
	})
	server := asynq.NewServer(where, asynq.Config{Concurrency: taskWorkers, LogLevel: asynq.ErrorLevel})
	began := time.Now()
	if err := server.Start(counting); err != nil {
		return rate, err
	}
	defer server.Shutdown()
	select {
	case <-done:
	case <-ctx.Done():
		return rate, ctx.Err()
	}
	rate.Value = float64(env.Size.Tasks) / time.Since(began).Seconds()
	return rate, nil
}
