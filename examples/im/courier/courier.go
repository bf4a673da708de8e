// Package courier delivers messages to inboxes in a database, by workers that are killed with
// SIGKILL at random. What a dead worker had in hand is delivered again, so something must tell
// whether its effect has happened. With keyturn, one option does: fence.WithDatabase.
//
// The queue is a list in Redis, because asynq gives back what a dead worker had only after half a
// minute.
package courier

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/examples/im/node"
	"github.com/keyturn/keyturn/fence"
)

const (
	// atATime is how many messages a worker has in hand.
	atATime = 4
	// workTime is what a delivery takes besides its one statement.
	workTime = 20 * time.Millisecond
)

// worker is one process.
type worker struct {
	*node.Node
	db   *database
	name string
}

// Serve runs a worker until ctx ends. It calls ready when it can be given messages.
func Serve(ctx context.Context, n *node.Node, name string, ready func(addr string)) (err error) {
	db, err := openDatabase(n.Database, n.Run)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	w := &worker{Node: n, db: db, name: name}
	ready(name)
	var all sync.WaitGroup
	for range atATime {
		all.Go(func() {
			for ctx.Err() == nil {
				w.next(ctx)
			}
		})
	}
	all.Wait()
	return nil
}

// next takes a message in hand, delivers it and lets go of it; on failure, it puts it back.
func (w *worker) next(ctx context.Context) {
	message, err := w.Redis.BLMove(ctx, queue(w.Run), hand(w.Run, w.name), "LEFT", "RIGHT", time.Second).Result()
	if err != nil { // nothing came, or the worker has to end
		return
	}
	err = w.deliver(ctx, message)
	_, _ = w.Redis.TxPipelined(context.WithoutCancel(ctx), func(p redis.Pipeliner) error { // a failure is like a crash
		p.LRem(ctx, hand(w.Run, w.name), 1, message)
		if err != nil {
			p.RPush(ctx, queue(w.Run), message)
		}
		return nil
	})
}

// deliver puts a message into its inbox.
func (w *worker) deliver(ctx context.Context, message string) error {
	if w.Locks == nil {
		return put(ctx, message, w.db.insert(), w.db.ExecContext)
	}
	_, err := w.Locks.Once(ctx, "courier:"+message, func(ctx context.Context) ([]byte, error) {
		tx, _ := fence.TxFrom(ctx)
		return nil, put(ctx, message, w.db.insert(), tx.ExecContext)
	}, fence.WithDatabase(w.db.DB, w.db.dialect, fence.WithTables(w.db.prefix)), core.WithTTL(time.Second))
	return err
}

// put is the handler: one statement and some other work.
func put[R any](ctx context.Context, message, insert string, exec func(context.Context, string, ...any) (R, error)) error {
	if _, err := exec(ctx, insert, message); err != nil {
		return err
	}
	select {
	case <-time.After(workTime):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func queue(run string) string        { return run + ":courier:queue" }
func hand(run, worker string) string { return run + ":courier:hand:" + worker }
