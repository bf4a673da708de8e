package fencetest

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/fence"
	"github.com/keyturn/keyturn/pgx/fencepgx"
)

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
func beginPgx(t *testing.T, pool *pgxpool.Pool, level pgx.TxIsoLevel) pgx.Tx {
	t.Helper()
	tx, err := pool.BeginTx(bounded(t), pgx.TxOptions{IsoLevel: level})
	must(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

var pgxLevels = []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable}

// A smaller token is stale, also if it had to wait for the greater one.
func TestPgxTokens(t *testing.T) {
	for _, level := range pgxLevels {
		t.Run(string(level), func(t *testing.T) {
			db, pool := pgxPool(t)
			db.run(t, `CREATE TABLE account (id INT PRIMARY KEY, token BIGINT)`, `INSERT INTO account VALUES (1, NULL)`)
			ctx := bounded(t)
			row := fence.Row{Table: "account", IDColumn: "id", ID: 1, TokenColumn: "token"}
			for _, check := range []func(g *fence.Guard, token uint64) error{
				func(g *fence.Guard, token uint64) error { return g.Check(ctx, "r", token) },
				func(g *fence.Guard, token uint64) error { return g.Claim(ctx, row, token) },
			} {
				first, second := beginPgx(t, pool, level), beginPgx(t, pool, level)
				must(t, check(fencepgx.On(first), 2))
				err := waits(t, func() error { return check(fencepgx.On(second), 1) }, func() { must(t, first.Commit(ctx)) })
				expect(t, err, map[bool]error{true: fence.ErrStale, false: fence.ErrRetry}[level == pgx.ReadCommitted])
				must(t, second.Rollback(ctx))
				late := beginPgx(t, pool, level)
				must(t, check(fencepgx.On(late), 2))
				expect(t, check(fencepgx.On(late), 1), fence.ErrStale)
				must(t, late.Rollback(ctx))
			}
			lost := beginPgx(t, pool, level)
			expect(t, fencepgx.Written(lost.Exec(ctx, `UPDATE account SET token = 1 WHERE token <= 1`)), fence.ErrStale)
			must(t, fencepgx.Written(lost.Exec(ctx, `UPDATE account SET token = 3 WHERE token <= 3`)))
			must(t, lost.Rollback(ctx))
		})
	}
}

// A message has one mark, which ends with a transaction that is rolled back.
func TestPgxMark(t *testing.T) {
	for _, level := range pgxLevels {
		t.Run(string(level), func(t *testing.T) {
			_, pool := pgxPool(t)
			ctx := bounded(t)
			mark := func(tx pgx.Tx, digest string) (bool, error) {
				return fencepgx.On(tx).Mark(ctx, "id", fence.WithFingerprint([]byte(digest)))
			}
			undone, first, second := beginPgx(t, pool, level), beginPgx(t, pool, level), beginPgx(t, pool, level)
			if is, err := mark(undone, "a"); !is || err != nil {
				t.Fatalf("the first: %v, %v", is, err)
			}
			err := waits(t, func() error {
				is, err := mark(first, "a")
				if err == nil && !is {
					err = errors.New("a mark that was rolled back is still there")
				}
				return err
			}, func() { must(t, undone.Rollback(ctx)) })
			must(t, err)
			must(t, first.Commit(ctx))
			if is, err := mark(second, "a"); is || err != nil {
				t.Errorf("a duplicate: %v, %v", is, err)
			}
			_, err = mark(second, "b")
			expect(t, err, core.ErrFingerprintMismatch)
		})
	}
}

// A lock is refused, or waited for, and leaves the settings of the transaction as they were.
func TestPgxLock(t *testing.T) {
	_, pool := pgxPool(t)
	ctx := bounded(t)
	for _, opts := range [][]fence.LockOption{nil, {fence.WithAdvisory()}} {
		holder, other := beginPgx(t, pool, ""), beginPgx(t, pool, "")
		must(t, fencepgx.On(holder).Lock(ctx, "a", opts...))
		expect(t, fencepgx.On(other).Lock(ctx, "a", append(opts, fence.NoWait())...), fence.ErrLocked)
		expect(t, fencepgx.On(other).Lock(ctx, "a", append(opts, fence.Within(50*time.Millisecond))...), fence.ErrLocked)
		var timeout string
		must(t, other.QueryRow(ctx, `SHOW lock_timeout`).Scan(&timeout))
		if timeout != "0" {
			t.Errorf("lock_timeout is %s", timeout)
		}
		must(t, waits(t, func() error { return fencepgx.On(other).Lock(ctx, "a", opts...) }, func() { must(t, holder.Commit(ctx)) }))
		must(t, other.Rollback(ctx))
	}
	expect(t, fencepgx.On(nil).Lock(ctx, "a"), fence.ErrNoTransaction)
	expect(t, fencepgx.On(nil, fence.WithTables("a b")).Check(ctx, "a", 1), fence.ErrNoTransaction, core.ErrInvalidOption)
}

// Each of two transactions wants what the other one has. One of them has to be repeated.
func TestPgxDeadlock(t *testing.T) {
	_, pool := pgxPool(t)
	ctx := bounded(t)
	one, two := beginPgx(t, pool, ""), beginPgx(t, pool, "")
	must(t, fencepgx.On(one).Check(ctx, "a", 1))
	must(t, fencepgx.On(two).Check(ctx, "b", 1))
	errs := make(chan error, 2)
	go func() { errs <- fencepgx.On(one).Check(ctx, "b", 1) }()
	go func() { errs <- fencepgx.On(two).Check(ctx, "a", 1) }()
	expect(t, errors.Join(<-errs, <-errs), fence.ErrRetry)
	must(t, errors.Join(one.Rollback(ctx), two.Rollback(ctx)))
}
