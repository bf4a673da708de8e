package fence

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
)

// sqlPool is the Pool of a *sql.DB.
type sqlPool struct{ db *sql.DB }

// poolOf returns nil for a nil db.
func poolOf(db *sql.DB) Pool {
	if db == nil {
		return nil
	}
	return sqlPool{db}
}

func (p sqlPool) Exec(ctx context.Context, statement string, args ...any) (int64, error) {
	return sqlTx{p.db}.Exec(ctx, statement, args...)
}

// sqlTransaction is a transaction of database/sql that ends with its context up to the COMMIT, and
// not with it from then on. database/sql ties a transaction to the context of its BEGIN. A client
// that hangs up during the COMMIT would cut its connection, and nobody would know the outcome.
type sqlTransaction struct {
	sqlTx
	conn   *sql.Conn
	tx     *sql.Tx
	cancel context.CancelFunc
	detach func() bool // the caller's context no longer ends the transaction; false: it has
}

func (p sqlPool) Begin(ctx context.Context, level sql.IsolationLevel) (Transaction, error) {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	detach := context.AfterFunc(ctx, cancel)
	t := &sqlTransaction{cancel: cancel, detach: detach}
	if err := t.open(own, p.db, level); err != nil {
		bound, cancel := ending(ctx)
		defer cancel()
		t.End(bound, false)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	t.sqlTx = sqlTx{t.tx}
	return t, nil
}

// open begins the transaction. It tries another connection as long as the pool's turn out to be dead,
// which the driver may notice only at the BEGIN: a server that restarts ends all of them.
func (t *sqlTransaction) open(ctx context.Context, db *sql.DB, level sql.IsolationLevel) (err error) {
	for old := db.Stats().OpenConnections; ; old-- {
		if t.conn, err = db.Conn(ctx); err != nil {
			return err
		}
		if t.tx, err = t.conn.BeginTx(ctx, &sql.TxOptions{Isolation: level}); err == nil || old <= 0 || ctx.Err() != nil {
			return err
		}
		if !errors.Is(err, driver.ErrBadConn) && t.conn.PingContext(ctx) == nil {
			return err // the server has refused it
		}
		t.giveBack(true)
		t.conn = nil
	}
}

func (t *sqlTransaction) In(ctx context.Context) context.Context {
	return context.WithValue(ctx, txKey{}, t.tx)
}

func (t *sqlTransaction) Commit(context.Context) error {
	if !t.detach() {
		return sql.ErrTxDone
	}
	return t.tx.Commit()
}

func (t *sqlTransaction) End(ctx context.Context, drop bool) {
	t.detach()
	defer t.cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		t.giveBack(drop)
	}()
	// database/sql has no context for the end of a transaction, and a driver may wait for a silent
	// connection for as long as TCP does. The goroutine ends then.
	select {
	case <-done:
	case <-ctx.Done():
	}
}

func (t *sqlTransaction) giveBack(drop bool) {
	if t.tx != nil {
		_ = t.tx.Rollback() // after a COMMIT it does nothing; if it fails, the connection is gone
	}
	if t.conn == nil {
		return
	}
	if drop {
		_ = t.conn.Raw(func(any) error { return driver.ErrBadConn }) // the way to tell the pool
	}
	_ = t.conn.Close()
}

type txKey struct{}

// TxFrom returns the transaction of [Once] or [WithDatabase] in which the function or handler
// with this context runs; false if there is none. What is written with it happens exactly once.
func TxFrom(ctx context.Context) (*sql.Tx, bool) {
	tx, ok := ctx.Value(txKey{}).(*sql.Tx)
	return tx, ok
}
