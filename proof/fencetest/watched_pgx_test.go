package fencetest

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/pgx/fencepgx"
)

// pgxAlone stands for pgx without database/sql, among the names of drivers.
const pgxAlone = "pgx alone"

// pgxBackend is a database that is reached by pgx alone.
type pgxBackend struct{ pool *pgxpool.Pool }

func (b pgxBackend) insert(ctx context.Context, statement string) (err error) {
	if tx, ok := fencepgx.TxFrom(ctx); ok {
		_, err = tx.Exec(ctx, statement)
	} else {
		_, err = b.pool.Exec(ctx, statement)
	}
	return err
}

func (b pgxBackend) withDatabase() core.CallOption { return fencepgx.WithDatabase(b.pool) }
func (b pgxBackend) close()                        { b.pool.Close() }

func watchedPgx(dsn string, at func(string)) (backend, error) {
	pool, err := newWatchedPgx(dsn, at)
	return pgxBackend{pool}, err
}

// newWatchedPgx tells before and after each COMMIT.
func newWatchedPgx(dsn string, at func(string)) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	config.ConnConfig.Tracer = commits(at)
	return pgxpool.NewWithConfig(context.Background(), config)
}

// commits is a tracer of pgx.
type commits func(point string)

type isCommit struct{}

func (c commits) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if data.SQL != "commit" {
		return ctx
	}
	c(beforeCommit)
	return context.WithValue(ctx, isCommit{}, true)
}

func (c commits) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	if ctx.Value(isCommit{}) != nil && data.Err == nil {
		c(afterCommit)
	}
}
