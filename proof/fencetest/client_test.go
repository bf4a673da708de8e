package fencetest

import (
	"context"
	"database/sql"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/lib/pq" // the driver "postgres"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/fence"
	"github.com/keyturn/keyturn/pgx/fencepgx"
)

// client is a way to reach a database: a driver of database/sql, or pgx alone.
type client struct {
	backend
	once func(ctx context.Context, id string, fn func(context.Context) ([]byte, error), opts ...fence.OnceOption) (core.Outcome, error)
}

// drivers are the names that connect knows for a dialect.
var drivers = map[fence.Dialect][]string{
	fence.SQLite:   {"sqlite"},
	fence.Postgres: {"pgx", "postgres", pgxAlone}, // "postgres" is lib/pq
	fence.MySQL:    {"mysql"},
}

// onEachClient runs a test on each dialect with each of its drivers, on a database of its own.
func onEachClient(t *testing.T, test func(t *testing.T, db *database, driver string)) {
	onEach(t, func(t *testing.T, db *database) {
		for _, driver := range drivers[db.dialect] {
			t.Run(driver, func(t *testing.T) {
				test(t, newDatabase(t, db.dialect, open(t, db.dialect), db.level), driver)
			})
		}
	})
}

// connect opens dsn. call is called right before each COMMIT.
func (db *database) connect(t testing.TB, driver, dsn string, call func()) client {
	t.Helper()
	at := func(point string) {
		if point == beforeCommit {
			call()
		}
	}
	if driver == pgxAlone {
		pool, err := newWatchedPgx(dsn, at)
		must(t, err)
		t.Cleanup(pool.Close)
		return client{pgxBackend{pool}, onceOfPgx(pool)}
	}
	plain, err := watchedDB(driver, dsn, at)
	must(t, err)
	t.Cleanup(func() { _ = plain.Close() })
	return client{sqlBackend{plain, db.dialect}, onceOf(plain, db.dialect)}
}

func onceOfPgx(pool *pgxpool.Pool) func(context.Context, string, func(context.Context) ([]byte, error), ...fence.OnceOption) (core.Outcome, error) {
	return func(ctx context.Context, id string, fn func(context.Context) ([]byte, error), opts ...fence.OnceOption) (core.Outcome, error) {
		return fencepgx.Once(ctx, pool, id, func(ctx context.Context, _ pgx.Tx) ([]byte, error) { return fn(ctx) }, opts...)
	}
}

func onceOf(db *sql.DB, d fence.Dialect) func(context.Context, string, func(context.Context) ([]byte, error), ...fence.OnceOption) (core.Outcome, error) {
	return func(ctx context.Context, id string, fn func(context.Context) ([]byte, error), opts ...fence.OnceOption) (core.Outcome, error) {
		return fence.Once(ctx, db, d, id, func(ctx context.Context, _ *sql.Tx) ([]byte, error) { return fn(ctx) }, opts...)
	}
}
