package fencetest

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/fence"
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

func (b pgxBackend) once(ctx context.Context, id string, fn work, opts ...fence.OnceOption) (core.Outcome, error) {
	return fencepgx.Once(ctx, b.pool, id, func(ctx context.Context, _ pgx.Tx) ([]byte, error) { return fn(ctx) }, opts...)
}

// watchedPgx tells before and after each COMMIT.
func watchedPgx(dsn string, at func(string)) (*pgxpool.Pool, error) {
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
