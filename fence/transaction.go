package fence

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"
)

// endTimeout bounds the wait for the answer to COMMIT and ROLLBACK.
const endTimeout = 5 * time.Second

// bounded is a transaction that ends with its context up to the COMMIT, and not with it from
// then on. database/sql ties a transaction to the context of its BEGIN. A client that hangs up
// during the COMMIT would cut its connection, and nobody would know the outcome.
type bounded struct {
	conn   *sql.Conn
	tx     *sql.Tx
	cancel context.CancelFunc
	detach func() bool // the caller's context no longer ends the transaction; false: it has
}

func (x *execution) begin(ctx context.Context) (*bounded, error) {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	detach := context.AfterFunc(ctx, cancel)
	t := &bounded{cancel: cancel, detach: detach}
	if err := t.open(own, x); err != nil {
		t.end(err)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	return t, nil
}

// open begins the transaction. As database/sql does it itself, it tries another connection if the
// pool's has been closed by the server.
func (t *bounded) open(ctx context.Context, x *execution) (err error) {
	for range 3 {
		if t.conn, err = x.db.Conn(ctx); err != nil {
			return err
		}
		if t.tx, err = t.conn.BeginTx(ctx, &sql.TxOptions{Isolation: x.isolation}); !errors.Is(err, driver.ErrBadConn) {
			return err
		}
		_ = t.conn.Close() // the pool has dropped it
		t.conn = nil
	}
	return err
}

// end rolls back what is not committed. err is how the transaction has ended. A connection to a
// server that became read-only does not go back into the pool: otherwise the pool would keep it,
// although another server is the primary by now.
func (t *bounded) end(err error) {
	t.detach()
	defer t.cancel()
	wait := endTimeout
	if errors.Is(err, errNoAnswer) {
		wait = 0 // all of this waits for the COMMIT
	}
	_ = answer(wait, func() error {
		if t.tx != nil {
			_ = t.tx.Rollback() // after a COMMIT it does nothing; if it fails, the connection is gone
		}
		if t.conn == nil {
			return nil
		}
		if readOnly[codeIn(err)] {
			_ = t.conn.Raw(func(any) error { return driver.ErrBadConn }) // the way to tell the pool
		}
		return t.conn.Close()
	})
}

// readOnly are the codes of a server on which nothing can be written.
var readOnly = map[string]bool{
	"25006": true, // read_only_sql_transaction: a replica, or a primary that no longer is one
	"1290":  true, // ER_OPTION_PREVENTS_STATEMENT: --read-only
	"1792":  true, // ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION
	"1836":  true, // ER_READ_ONLY_MODE
}

// commit commits, unless ctx has ended. The error is an *unknownError if nobody knows the outcome.
func (t *bounded) commit(ctx context.Context) error {
	if !t.detach() {
		return ctx.Err()
	}
	err := answer(endTimeout, t.tx.Commit)
	switch {
	case err == nil:
		return nil
	case refused(err) || errors.Is(err, sql.ErrTxDone):
		return fmt.Errorf("keyturn: commit: %w", err)
	}
	return &unknownError{fmt.Errorf("keyturn: commit: %w", err)}
}

var errNoAnswer = errors.New("no answer from the database")

// answer waits for call, but not for longer than that. database/sql has no context for the end of
// a transaction, and a driver may wait for a silent connection for as long as TCP does. Its
// goroutine ends then.
func answer(wait time.Duration, call func() error) error {
	done := make(chan error, 1)
	go func() { done <- call() }()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return errNoAnswer
	}
}

type txKey struct{}

// TxFrom returns the transaction of [Once] or [WithDatabase] in which the function or handler
// with this context runs; false if there is none. What is written with it happens exactly once.
func TxFrom(ctx context.Context) (*sql.Tx, bool) {
	tx, ok := ctx.Value(txKey{}).(*sql.Tx)
	return tx, ok
}
