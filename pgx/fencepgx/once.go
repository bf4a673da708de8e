package fencepgx

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/fence"
)

// Once is [fence.Once]: it runs fn in a transaction that also marks id, so fn's effect on this
// database happens once, whatever is delivered twice or crashes. A duplicate gets the result of
// the first execution. fn must write with the transaction it gets ([TxFrom] finds it in its
// context, too), and neither commit it nor roll it back.
//
//	out, err := fencepgx.Once(ctx, pool, "msg:"+id, func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
//		_, err := tx.Exec(ctx, `INSERT INTO inbox ...`)
//		return nil, err
//	})
//
// Options, repeats and errors are those of [fence.Once]. A nil pool, a nil fn, and a level of
// [fence.WithIsolation] that PostgreSQL does not have, match core.ErrInvalidOption.
func Once(ctx context.Context, pool *pgxpool.Pool, id string, fn func(context.Context, pgx.Tx) ([]byte, error), opts ...fence.OnceOption) (core.Outcome, error) {
	if fn == nil {
		return fence.OnceThrough(ctx, through(pool), fence.Postgres, id, nil, opts...)
	}
	return fence.OnceThrough(ctx, through(pool), fence.Postgres, id, func(ctx context.Context) ([]byte, error) {
		tx, _ := TxFrom(ctx)
		return fn(ctx, tx)
	}, opts...)
}

// WithDatabase is [fence.WithDatabase]: it runs what is executed once in a transaction of pool that
// also marks its key. It is an option of [core.Engine.Once], and of the rules for Once of every
// middleware:
//
//	lockasynq.Once("message:deliver", "msg:{payload.id}", fencepgx.WithDatabase(pool))
//
// The handler gets the transaction from its context ([TxFrom]), and must write with it. Everything
// else, and the errors, are those of [fence.WithDatabase].
func WithDatabase(pool *pgxpool.Pool, opts ...fence.OnceOption) core.CallOption {
	return fence.WithDatabaseThrough(through(pool), fence.Postgres, opts...)
}

// Sweep is [fence.Sweep]: it deletes marks that are older than olderThan, and returns how many it
// deleted.
func Sweep(ctx context.Context, pool *pgxpool.Pool, olderThan time.Duration, opts ...fence.Option) (int64, error) {
	return fence.SweepThrough(ctx, through(pool), fence.Postgres, olderThan, opts...)
}

type txKey struct{}

// TxFrom returns the transaction of [Once] or [WithDatabase] in which the function or handler
// with this context runs; false if there is none. What is written with it happens exactly once.
func TxFrom(ctx context.Context) (pgx.Tx, bool) {
	tx, ok := ctx.Value(txKey{}).(pgx.Tx)
	return tx, ok
}
