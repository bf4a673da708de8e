package fencetest

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jmoiron/sqlx"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/fence"
	"github.com/keyturn/keyturn/pgx/fencepgx"
)

// What fencepgx adds to package fence. The tests on each client, and TestCrashes, have pgx alone, too.

// pgxPool is a pool of pgx on a database with the tables, without database/sql.
func pgxPool(t *testing.T) (*database, *pgxpool.Pool) {
	t.Helper()
	db := newDatabase(t, fence.Postgres, open(t, fence.Postgres), sql.LevelDefault)
	pool, err := pgxpool.New(bounded(t), db.DSN())
	must(t, err)
	t.Cleanup(pool.Close)
	return db, pool
}

// beginPgx begins a transaction, which the test's end rolls back.
func beginPgx(t *testing.T, pool *pgxpool.Pool) pgx.Tx {
	t.Helper()
	tx, err := pool.Begin(bounded(t))
	must(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

// A guard on a transaction of pgx checks tokens, marks, and locks.
func TestPgxGuard(t *testing.T) {
	db, pool := pgxPool(t)
	db.run(t, `CREATE TABLE account (id INT PRIMARY KEY, token BIGINT)`, `INSERT INTO account VALUES (1, NULL)`)
	ctx := bounded(t)
	first, second := beginPgx(t, pool), beginPgx(t, pool)
	row := fence.Row{Table: "account", IDColumn: "id", ID: 1, TokenColumn: "token"}
	must(t, errors.Join(fencepgx.On(first).Check(ctx, "r", 2), fencepgx.On(first).Claim(ctx, row, 2), fencepgx.On(first).Lock(ctx, "a")))
	expect(t, fencepgx.On(first).Check(ctx, "r", 1), fence.ErrStale)
	expect(t, fencepgx.On(first).Claim(ctx, row, 1), fence.ErrStale)
	if is, err := fencepgx.On(first).Mark(ctx, "id", fence.WithFingerprint([]byte("one"))); !is || err != nil {
		t.Errorf("the first: %v, %v", is, err)
	}

	expect(t, fencepgx.On(second).Lock(ctx, "a", fence.NoWait()), fence.ErrLocked)
	expect(t, fencepgx.On(second).Lock(ctx, "a", fence.Within(50*time.Millisecond)), fence.ErrLocked)
	var timeout string
	must(t, second.QueryRow(ctx, `SHOW lock_timeout`).Scan(&timeout))
	check(t, timeout == "0", "lock_timeout is %s", timeout)
	err := waits(t, func() error { return fencepgx.On(second).Check(ctx, "r", 1) }, func() { must(t, first.Commit(ctx)) })
	expect(t, err, fence.ErrStale)
	is, err := fencepgx.On(second).Mark(ctx, "id", fence.WithFingerprint([]byte("two")))
	expect(t, err, core.ErrFingerprintMismatch)
	if is {
		t.Error("a duplicate is the first")
	}
	expect(t, fencepgx.Written(second.Exec(ctx, `UPDATE account SET token = 1 WHERE token <= 1`)), fence.ErrStale)
	must(t, fencepgx.Written(second.Exec(ctx, `UPDATE account SET token = 3 WHERE token <= 3`)))
	expect(t, fencepgx.On(nil).Lock(ctx, "a"), fence.ErrNoTransaction)
	expect(t, fencepgx.On(nil, fence.WithTables("a b")).Check(ctx, "a", 1), fence.ErrNoTransaction, core.ErrInvalidOption)
}

// Once runs at the level that it is told, and gives each connection back.
func TestPgxOnce(t *testing.T) {
	_, pool := pgxPool(t)
	once := func(ctx context.Context, id string, fn func(context.Context, pgx.Tx) ([]byte, error), opts ...fence.OnceOption) error {
		return second(fencepgx.Once(ctx, pool, id, fn, opts...))
	}
	expect(t, once(bounded(t), "a", func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
		return nil, tx.Rollback(ctx) // which is forbidden
	}), sql.ErrTxDone, fence.ErrTransactionEnded)
	for level, want := range map[sql.IsolationLevel]string{
		sql.LevelReadCommitted: "read committed", sql.LevelRepeatableRead: "repeatable read", sql.LevelSerializable: "serializable",
	} {
		id := strings.Replace(want, "read committed", "a", 1)
		must(t, once(bounded(t), id, func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
			var got string
			err := tx.QueryRow(ctx, `SHOW transaction_isolation`).Scan(&got)
			found, ok := fencepgx.TxFrom(ctx)
			check(t, ok && found == tx && got == want, "%s: the level %q, the transaction in the context %v", want, got, found)
			return nil, err
		}, fence.WithIsolation(level)))
	}
	if n := pool.Stat().AcquiredConns(); n != 0 {
		t.Errorf("%d connections did not come back", n)
	}
	if n, err := fencepgx.Sweep(bounded(t), pool, time.Hour); n != 0 || err != nil {
		t.Errorf("%d new marks were deleted, %v", n, err)
	}
	time.Sleep(2 * time.Millisecond)
	if n, err := fencepgx.Sweep(bounded(t), pool, time.Millisecond); n != 3 || err != nil {
		t.Errorf("%d old marks were deleted, %v", n, err)
	}

	skip := func(context.Context, pgx.Tx) ([]byte, error) { return nil, core.ErrSkipResult }
	for _, err := range []error{
		second(fencepgx.Once(bounded(t), nil, "a", skip)),
		once(bounded(t), "a", nil),
		once(bounded(t), "c", skip, fence.WithIsolation(sql.LevelLinearizable)),
		second(newEngine(t).Once(bounded(t), "a", nothing, fencepgx.WithDatabase(nil))),
		second(newEngine(t).Once(bounded(t), "a", nothing, fencepgx.WithDatabase(pool, fence.WithFingerprint([]byte("one"))))),
		second(fencepgx.Sweep(bounded(t), nil, time.Hour)),
		second(fencepgx.Sweep(bounded(t), pool, 0)),
	} {
		expect(t, err, core.ErrInvalidOption)
	}
}

// What sqlx, bun and GORM call a transaction is one, and what they call a database is none.
func TestTransactionsOfOthers(t *testing.T) {
	db := newDatabase(t, fence.Postgres, open(t, fence.Postgres), sql.LevelDefault)
	ctx := bounded(t)
	id := 0
	try := func(name string, pool, tx fence.Tx, commit func() error) {
		t.Helper()
		id++
		expect(t, second(fence.On(pool, fence.Postgres).Mark(ctx, name)), fence.ErrNoTransaction)
		first, err := fence.On(tx, fence.Postgres).Mark(ctx, name)
		check(t, first && err == nil, "%s: %v, %v", name, first, err)
		must(t, commit())
		n := db.number(t, `SELECT count(*) FROM keyturn_mark`)
		check(t, n == int64(id), "%s: %d marks, want %d", name, n, id)
	}

	x := sqlx.NewDb(db.DB, "pgx")
	xtx, err := x.BeginTxx(ctx, nil)
	must(t, err)
	defer xtx.Rollback()
	try("sqlx", x, xtx, xtx.Commit)

	b := bun.NewDB(db.DB, pgdialect.New())
	btx, err := b.BeginTx(ctx, nil)
	must(t, err)
	defer btx.Rollback()
	try("bun", b, btx.Tx, btx.Commit)

	for name, prepared := range map[string]bool{"gorm": false, "gorm with prepared statements": true} {
		g, err := gorm.Open(postgres.New(postgres.Config{Conn: db.DB}), &gorm.Config{PrepareStmt: prepared})
		must(t, err)
		gtx := g.WithContext(ctx).Begin()
		must(t, gtx.Error)
		try(name, g.Statement.ConnPool, gtx.Statement.ConnPool, func() error { return gtx.Commit().Error })
	}
}
