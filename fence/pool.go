package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// Pool begins transactions of a database that is reached without database/sql, for [OnceThrough],
// [WithDatabaseThrough] and [SweepThrough]. Package fencepgx has one for pgx. Several goroutines
// may use it at a time.
type Pool interface {
	// Begin begins a transaction at that isolation level. If the connection that it takes turns out
	// to be closed, it takes another one. If ctx ends meanwhile, Begin returns ctx's error.
	Begin(ctx context.Context, level sql.IsolationLevel) (Transaction, error)
	// Exec runs a statement in a transaction of its own, and returns how many rows the database
	// counted.
	Exec(ctx context.Context, statement string, args ...any) (rows int64, err error)
}

// Transaction is what a [Pool] has begun. One goroutine uses it at a time. The end of the
// context of Begin may roll it back before the call of Commit, and not afterwards.
type Transaction interface {
	Statements
	// In returns ctx with the transaction, for the function that runs in it.
	In(ctx context.Context) context.Context
	// Commit commits, and waits for the answer for as long as it takes: ctx never ends. It must not
	// cancel a COMMIT that takes long. PostgreSQL would then no longer wait for its synchronous
	// replica, but keep the transaction, which a failover may lose. An error that matches
	// sql.ErrTxDone says that the transaction was rolled back.
	Commit(ctx context.Context) error
	// End rolls back unless Commit was called, and gives the connection back to the pool. If drop
	// is true, it closes the connection instead. It returns when ctx ends, at the latest. If Commit
	// was called, it has returned.
	End(ctx context.Context, drop bool)
}

// endTimeout bounds the wait for the answer to COMMIT and ROLLBACK.
const endTimeout = 5 * time.Second

// ending is the context of a transaction's end, which goes on if the caller has gone.
func ending(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
}

// commit commits, unless ctx has ended, and then ends t. If the answer takes too long, that happens
// when there is one. The error is an *unknownError if nobody knows the outcome.
func commit(ctx context.Context, t Transaction) error {
	if err := ctx.Err(); err != nil {
		end(ctx, t, err)
		return err
	}
	bound, cancel := ending(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		err := t.Commit(context.WithoutCancel(ctx))
		end(ctx, t, err)
		done <- err
	}()
	err := errNoAnswer
	select {
	case err = <-done:
	case <-bound.Done():
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sql.ErrTxDone) && ctx.Err() != nil:
		return ctx.Err()
	case rolledBack(err):
		return fmt.Errorf("keyturn: commit: %w", err)
	}
	return &unknownError{fmt.Errorf("keyturn: commit: %w", err)}
}

var errNoAnswer = errors.New("no answer from the database")

// end rolls back what is not committed. err is how the transaction has ended. A connection to a
// server that became read-only does not go back into the pool: otherwise the pool would keep it,
// although another server is the primary by now.
func end(ctx context.Context, t Transaction, err error) {
	bound, cancel := ending(ctx)
	defer cancel()
	t.End(bound, readOnly[codeIn(err)])
}
