package fence

import (
	"context"
	"database/sql"
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
	tx     *sql.Tx
	cancel context.CancelFunc
	detach func() bool // the caller's context no longer ends the transaction; false: it has
}

func (x *execution) begin(ctx context.Context) (*bounded, error) {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	detach := context.AfterFunc(ctx, cancel)
	tx, err := x.db.BeginTx(own, &sql.TxOptions{Isolation: x.isolation})
	if err != nil {
		detach()
		cancel()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	return &bounded{tx: tx, cancel: cancel, detach: detach}, nil
}

// end rolls back what is not committed.
func (t *bounded) end() {
	t.detach()
	_ = answer(t.tx.Rollback) // after a COMMIT it does nothing; if it fails, the connection is gone
	t.cancel()
}

// commit commits, unless ctx has ended. The error is an *unknownError if nobody knows the outcome.
func (t *bounded) commit(ctx context.Context) error {
	if !t.detach() {
		return ctx.Err()
	}
	err := answer(t.tx.Commit)
	switch {
	case err == nil:
		return nil
	case refused(err) || errors.Is(err, sql.ErrTxDone):
		return fmt.Errorf("keyturn: commit: %w", err)
	}
	return &unknownError{fmt.Errorf("keyturn: commit: %w", err)}
}

var errNoAnswer = errors.New("no answer from the database")

// answer waits for call for no longer than endTimeout. database/sql has no context for the end of
// a transaction, and a driver may wait for a silent connection for as long as TCP does. Its
// goroutine ends then.
func answer(call func() error) error {
	done := make(chan error, 1)
	go func() { done <- call() }()
	timer := time.NewTimer(endTimeout)
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
