package service

import (
	"context"
	"fmt"
	"time"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/examples/im/db"
	"github.com/keyturn/keyturn/examples/im/delivery"
	"github.com/keyturn/keyturn/examples/im/node"
	"github.com/keyturn/keyturn/middleware/asynq"
)

type messages struct{ db *db.DB }

// process puts a message into its receiver's inbox. It does not check whether the message is
// there already: the rule around it does.
func (s *messages) process(ctx context.Context, task *asynq.Task) error {
	m, err := delivery.Decode(task)
	if err != nil {
		return fmt.Errorf("%w: %w", err, asynq.SkipRetry)
	}
	return s.db.AddMessage(ctx, m.To, m.ID)
}

// newMux makes the task handlers. Here the handler of messages gets its rule.
func newMux(n *node.Node) (*asynq.ServeMux, error) {
	mux := asynq.NewServeMux()
	if n.Locks != nil {
		once, err := lockasynq.New(n.Locks,
			lockasynq.Once(delivery.Type, "message:{payload.message_id}"),
		)
		if err != nil {
			return nil, err
		}
		mux.Use(lockasynq.Trace, once.Middleware)
	}
	m := &messages{db: n.DB}
	mux.HandleFunc(delivery.Type, m.process)
	return mux, nil
}

// startWorker makes this process a worker of the queue.
func startWorker(n *node.Node) (*asynq.Server, error) {
	mux, err := newMux(n)
	if err != nil {
		return nil, err
	}
	worker := asynq.NewServerFromRedisClient(n.Redis, asynq.Config{
		Concurrency: 16,
		Queues:      map[string]int{n.Queue(): 1},
		// Waiting for another delivery of the same message is no failure. Tasks that failed
		// come again soon, because nobody would watch this for minutes.
		IsFailure:      lockasynq.IsFailure(nil),
		RetryDelayFunc: lockasynq.RetryDelay(soon),

		TaskCheckInterval:        50 * time.Millisecond,
		DelayedTaskCheckInterval: 200 * time.Millisecond,
		ShutdownTimeout:          2 * time.Second,
		LogLevel:                 asynq.ErrorLevel,
	})
	return worker, worker.Start(mux)
}

func soon(int, error, *asynq.Task) time.Duration { return 100 * time.Millisecond }
