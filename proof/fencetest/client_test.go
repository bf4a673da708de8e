package fencetest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/lib/pq"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/fence"
	"github.com/keyturn/keyturn/pgx/fencepgx"
)

// drivers are the names that connect knows for a dialect.
var drivers = map[fence.Dialect][]string{
	fence.SQLite:   {"sqlite"},
	fence.Postgres: {"pgx", "postgres", pgxAlone}, // "postgres" is lib/pq
	fence.MySQL:    {"mysql"},
}

// onEachClient runs a test on each dialect with each of its drivers, on a database of its own.
func onEachClient(t *testing.T, test func(t *testing.T, db *database, driver string)) {
	onDialects(t, func(t *testing.T, d fence.Dialect, levels []sql.IsolationLevel) {
		for _, driver := range drivers[d] {
			if testing.Short() && driver == "postgres" {
				continue // the other two have all that is not its own
			}
			t.Run(driver, func(t *testing.T) { test(t, newDatabase(t, d, open(t, d), levels[0]), driver) })
		}
	})
}

// connect opens dsn. call is called right before each COMMIT.
func (db *database) connect(t testing.TB, driver, dsn string, call func()) backend {
	t.Helper()
	b, err := openBackend(driver, dsn, db.dialect, func(point string) {
		if point == beforeCommit {
			call()
		}
	})
	must(t, err)
	t.Cleanup(b.close)
	return b
}

// connectBy opens a pool of so many connections to dsn.
func (db *database) connectBy(t testing.TB, conns int, driver, dsn string) backend {
	t.Helper()
	if driver == pgxAlone {
		dsn += fmt.Sprintf("&pool_max_conns=%d", conns)
	}
	c := db.connect(t, driver, dsn, func() {})
	if b, ok := c.(sqlBackend); ok {
		b.db.SetMaxOpenConns(conns)
		b.db.SetMaxIdleConns(conns)
	}
	return c
}

// openBackend opens dsn. at is called before and after each COMMIT.
func openBackend(driver, dsn string, d fence.Dialect, at func(point string)) (backend, error) {
	if driver == pgxAlone {
		pool, err := watchedPgx(dsn, at)
		return pgxBackend{pool}, err
	}
	db, err := watchedDB(driver, dsn, at)
	return sqlBackend{db, d}, err
}

// bothWays are the functions that do work once.
func bothWays(t *testing.T, c backend) map[string]func(id string, fn work) (core.Outcome, error) {
	return map[string]func(id string, fn work) (core.Outcome, error){
		"Once": func(id string, fn work) (core.Outcome, error) { return c.once(bounded(t), id, fn) },
		"WithDatabase": func(id string, fn work) (core.Outcome, error) {
			return newEngine(t).Once(bounded(t), id, fn, c.withDatabase())
		},
	}
}

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

// watched makes connections that tell before they send a COMMIT, and after they have the answer.
type watched struct {
	driver.Connector
	at func(point string)
}

func (w watched) Connect(ctx context.Context) (driver.Conn, error) {
	inner, err := w.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{fullConn: inner.(fullConn), at: w.at}, nil
}

// fullConn is what the drivers' connections have in common.
type fullConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.SessionResetter
	driver.Pinger
}

type conn struct {
	fullConn
	at func(point string)
}

func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	tx, err := c.fullConn.BeginTx(ctx, opts)
	return &watchedTx{tx, c.at}, err
}

type watchedTx struct {
	driver.Tx
	at func(point string)
}

func (tx *watchedTx) Commit() error {
	tx.at(beforeCommit)
	err := tx.Tx.Commit()
	if err == nil {
		tx.at(afterCommit)
	}
	return err
}
