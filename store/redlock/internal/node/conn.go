package node

import (
	"context"
	"errors"

	"github.com/keyturn/keyturn/internal/hooked"
)

func timedOut(err error) bool {
	var t interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &t) && t.Timeout()
}

// connect makes a connection if there is none. A connection ends with the server's process, so the
// run id stays true for as long as the connection lasts.
func (l *connQueue) connect(ctx context.Context) error {
	losses := l.node.losses.Load()
	if l.conn != nil && l.losses == losses {
		return nil
	}
	// If the other connQueue has lost its connection, this one is likely to be dead as well, and the next
	// calls would be lost with it.
	l.hangUp()

	// Every connection that is idle in the client's pool may have broken unnoticed. Each try removes
	// one that has. After the last of them the client makes a new one.
	broken := l.node.cfg.Client.PoolStats().IdleConns
	err := l.dial(ctx)
	for ; err != nil && !timedOut(err) && broken > 0; broken-- {
		err = l.dial(ctx)
	}
	l.losses = losses
	return err
}

// dial takes a connection from the client's pool and asks who answers.
func (l *connQueue) dial(ctx context.Context) error {
	l.client, l.conn = hooked.OnConn(l.node.cfg.Client, l.node.cfg.Timeout)
	id, err := runID(ctx, l.client)
	if err == nil {
		err = l.node.cfg.Met(id)
	}
	if err != nil {
		l.hangUp()
		return err
	}
	l.runID = id
	return nil
}

func (l *connQueue) hangUp() {
	if l.conn != nil {
		_ = l.conn.Close() // gives it back to the client's pool
		l.conn = nil
	}
}
