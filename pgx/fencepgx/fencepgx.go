// Package fencepgx is package fence for programs that use pgx without database/sql:
//
//	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
//		if err := fencepgx.On(tx).CheckLease(ctx, "account:42"); err != nil {
//			return err // a later lease has written
//		}
//		_, err := tx.Exec(ctx, `UPDATE account SET ...`)
//		return err
//	})
//
// [WithDatabase] gives the messages and requests of every middleware exactly one effect, and [Once]
// does so without a middleware. It is a module of its own, because it needs pgx.
package fencepgx

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/keyturn/keyturn/fence"
)

// On returns a guard on tx, whose database is PostgreSQL. It does no I/O. Every method fails with
// [fence.ErrNoTransaction] if tx is nil, and with core.ErrInvalidOption if an option is wrong.
func On(tx pgx.Tx, opts ...fence.Option) *fence.Guard {
	if tx == nil {
		return fence.Through(nil, fence.Postgres, opts...)
	}
	return fence.Through(statements{tx}, fence.Postgres, opts...)
}

type statements struct{ tx pgx.Tx }

func (s statements) Exec(ctx context.Context, statement string, args ...any) (int64, error) {
	tag, err := s.tx.Exec(ctx, statement, args...)
	return tag.RowsAffected(), done(err)
}

func (s statements) QueryRow(ctx context.Context, query string, args []any, dest ...any) error {
	return done(s.tx.QueryRow(ctx, query, args...).Scan(dest...))
}

// done gives package fence the word of database/sql for a transaction that has ended.
func done(err error) error {
	if errors.Is(err, pgx.ErrTxClosed) || errors.Is(err, pgx.ErrTxCommitRollback) {
		return fmt.Errorf("%w: %w", sql.ErrTxDone, err)
	}
	return err
}

// Written is [fence.Written] for an UPDATE of the caller's own: nil if a row was written,
// [fence.ErrStale] if none was, and err otherwise, as [fence.ErrRetry] if the transaction has to be
// repeated.
func Written(tag pgconn.CommandTag, err error) error {
	switch {
	case fence.Retryable(err):
		return fmt.Errorf("%w: %w", fence.ErrRetry, err)
	case err == nil && tag.RowsAffected() == 0:
		return fence.ErrStale
	}
	return err
}
