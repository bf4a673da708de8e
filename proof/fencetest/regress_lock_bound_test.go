package fencetest

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/fence"
)

// A bounded wait for a lock changed SQLite's busy_timeout while it waited. If the context ended
// meanwhile, the connection went back into the pool with the lock's bound, or with none.
func TestBoundOfALockStaysInItsTransactionOnSQLite(t *testing.T) {
	data := open(t, fence.SQLite)
	holders := newDatabase(t, fence.SQLite, data, 0)
	dsn := strings.Replace(data.DSN(), "_txlock=immediate", "_txlock=deferred", 1)
	for name, lockOnly := range map[string]bool{"the lock's context": true, "the transaction's context": false} {
		for _, option := range []fence.LockOption{fence.Within(20 * time.Second), fence.NoWait()} {
			db, err := sql.Open("sqlite", dsn)
			must(t, err)
			defer db.Close()
			db.SetMaxOpenConns(1)
			holder := holders.begin(t) // it has the lock of the whole database
			ctx, cancel := context.WithTimeout(bounded(t), 50*time.Millisecond)
			whole := ctx
			if lockOnly {
				whole = bounded(t)
			}
			tx, err := db.BeginTx(whole, nil)
			must(t, err)
			err = fence.On(tx, fence.SQLite).Lock(ctx, "a", option)
			check(t, err != nil, "%s: it has a lock that another transaction has", name)
			<-ctx.Done()
			cancel()
			_ = tx.Rollback()
			must(t, holder.Rollback())
			var now int
			must(t, db.QueryRowContext(bounded(t), `PRAGMA busy_timeout`).Scan(&now))
			check(t, now == 5000, "%s: the connection has busy_timeout %d in the pool, after %v", name, now, err)
		}
	}
}

// The end of the context while a bounded lock is put right: the transaction does not go on with the
// lock's bound, and ErrLocked is not said of a transaction that cannot go on.
func TestBoundOfALockAfterTheEndOfItsContext(t *testing.T) {
	onEachClient(t, func(t *testing.T, db *database, driver string) {
		if driver == pgxAlone {
			return // it closes the connection when a context ends
		}
		plain, err := sql.Open(driver, db.DSN())
		must(t, err)
		defer plain.Close()
		if db.dialect != fence.SQLite {
			holder := db.begin(t)
			must(t, holder.Lock(bounded(t), "held"))
		}
		for name, bound := range map[string]fence.LockOption{
			"free": fence.Within(250 * time.Millisecond), "held": fence.Within(200 * time.Millisecond), "not waited for": fence.NoWait(),
		} {
			for after := range 8 {
				tx, err := plain.BeginTx(bounded(t), nil)
				must(t, err)
				if db.dialect == fence.Postgres {
					must(t, second(tx.ExecContext(bounded(t), `SET LOCAL lock_timeout = '17s'`)))
				}
				ending, cancel := context.WithCancel(bounded(t))
				g := fence.On(&endsContext{tx, cancel, after}, db.dialect)
				err = g.Lock(ending, strings.Replace(name, "not waited for", "held", 1), bound)
				cancel()
				if err == nil || errors.Is(err, fence.ErrLocked) {
					must(t, second(tx.ExecContext(bounded(t), `SELECT 1`)))
					got, want := db.lockTimeout(t, tx)
					check(t, got == want, "%s, call %d: the transaction goes on with a timeout of %s after %v", name, after, got, err)
				}
				_ = tx.Rollback() // a driver may have closed the connection at the end of the context
			}
		}
	})
}

// lockTimeout is the setting of tx that a bounded lock may change, and its value before.
func (db *database) lockTimeout(t *testing.T, tx *sql.Tx) (got, want string) {
	t.Helper()
	c := map[fence.Dialect]struct{ query, want string }{
		fence.Postgres: {`SHOW lock_timeout`, "17s"}, fence.SQLite: {`PRAGMA busy_timeout`, "5000"}, fence.MySQL: {`SELECT '0'`, "0"},
	}[db.dialect]
	must(t, tx.QueryRowContext(bounded(t), c.query).Scan(&got))
	return got, c.want
}

// endsContext ends a context right after some of its calls.
type endsContext struct {
	*sql.Tx
	cancel func()
	after  int
}

func (e *endsContext) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	defer e.count()
	return e.Tx.ExecContext(ctx, query, args...)
}

func (e *endsContext) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	defer e.count()
	return e.Tx.QueryRowContext(ctx, query, args...)
}

func (e *endsContext) count() {
	if e.after--; e.after == 0 {
		e.cancel()
	}
}
