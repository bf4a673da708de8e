package fencetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/fence"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/sqltest"
	"github.com/keyturn/keyturn/pgx/fencepgx"
)

// pgxEffect writes in the transaction of the context.
func pgxEffect(ctx context.Context) error {
	tx, ok := fencepgx.TxFrom(ctx)
	if !ok {
		return errors.New("the context has no transaction")
	}
	_, err := tx.Exec(ctx, `INSERT INTO effect VALUES (1)`)
	return err
}

// Four deliveries of each message meet, and the first try of each fails after its effect. At each
// level there is one effect, and everybody gets the same answer.
func TestPgxOnceHasOneEffect(t *testing.T) {
	for _, level := range []sql.IsolationLevel{sql.LevelDefault, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable} {
		t.Run(level.String(), func(t *testing.T) {
			db, pool := pgxPool(t)
			db.run(t, `CREATE TABLE effect (message INT)`)
			var all sync.WaitGroup
			var tries [4]atomic.Int32
			for i := range 16 {
				message := i % len(tries)
				all.Go(func() {
					for {
						out, err := fencepgx.Once(bounded(t), pool, fmt.Sprint(message), func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
							n := tries[message].Add(1)
							_, err := tx.Exec(ctx, `INSERT INTO effect VALUES ($1)`, message)
							if n == 1 && err == nil {
								err = errFirst
							}
							return fmt.Append(nil, "answer ", message), err
						}, fence.WithIsolation(level), fence.WithAttempts(1000))
						if errors.Is(err, errFirst) {
							continue
						}
						if want := fmt.Sprint("answer ", message); err != nil || string(out.Result) != want {
							t.Errorf("%q, %v", out.Result, err)
						}
						return
					}
				})
			}
			all.Wait()
			if n, several := db.number(t, `SELECT count(*) FROM effect`), db.number(t, `SELECT count(DISTINCT message) FROM effect`); n != 4 || several != 4 {
				t.Errorf("%d effects of %d messages, want 4", n, several)
			}
		})
	}
}

var errFirst = errors.New("the first try fails, after its effect")

// What a duplicate gets, and what leaves no mark behind.
func TestPgxOnceAnswers(t *testing.T) {
	db, pool := pgxPool(t)
	db.run(t, `CREATE TABLE effect (n INT)`)
	once := func(id string, result []byte, err error, opts ...fence.OnceOption) (core.Outcome, error) {
		return fencepgx.Once(bounded(t), pool, id, func(ctx context.Context, _ pgx.Tx) ([]byte, error) {
			return result, errors.Join(pgxEffect(ctx), err)
		}, opts...)
	}
	own := errors.New("own")
	_, err := once("a", nil, own)
	expect(t, err, own)
	func() {
		defer func() { _ = recover() }()
		_, _ = fencepgx.Once(bounded(t), pool, "a", func(ctx context.Context, _ pgx.Tx) ([]byte, error) {
			must(t, pgxEffect(ctx))
			panic("in the middle")
		})
	}()
	ctx, cancel := context.WithCancel(bounded(t))
	_, err = fencepgx.Once(ctx, pool, "a", func(ctx context.Context, _ pgx.Tx) ([]byte, error) {
		defer cancel() // the lease is lost, or the client has gone
		return nil, pgxEffect(ctx)
	})
	expect(t, err, context.Canceled)
	_, err = fencepgx.Once(bounded(t), pool, "a", func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
		return nil, errors.Join(pgxEffect(ctx), tx.Rollback(ctx)) // which is forbidden
	})
	expect(t, err, sql.ErrTxDone)
	if n := db.number(t, `SELECT count(*) FROM effect`); n != 0 {
		t.Errorf("%d effects of what failed", n)
	}

	one, two := fence.WithFingerprint([]byte("one")), fence.WithFingerprint([]byte("two"))
	for i, want := range []bool{false, true} {
		if out, err := once("a", []byte("\x00\xff"), nil, one); err != nil || out.Duplicate != want || string(out.Result) != "\x00\xff" {
			t.Errorf("time %d: %+v, %v", i+1, out, err)
		}
	}
	_, err = once("a", nil, nil, two)
	expect(t, err, core.ErrFingerprintMismatch)
	skip := func(context.Context, pgx.Tx) ([]byte, error) { return nil, core.ErrSkipResult }
	out, err := fencepgx.Once(bounded(t), pool, "b", skip)
	if err != nil || !out.ResultNotKept {
		t.Errorf("without a result: %+v, %v", out, err)
	}
	_, err = fencepgx.Once(bounded(t), pool, "b", skip)
	expect(t, err, core.ErrResultNotKept)
	if n := db.number(t, `SELECT count(*) FROM effect`); n != 1 {
		t.Errorf("%d effects", n)
	}
	if n := pool.Stat().AcquiredConns(); n != 0 {
		t.Errorf("%d connections did not come back", n)
	}

	for _, err := range []error{
		second(fencepgx.Once(bounded(t), nil, "a", skip)),
		second(fencepgx.Once(bounded(t), pool, "a", nil)),
		second(fencepgx.Once(bounded(t), pool, "c", skip, fence.WithIsolation(sql.LevelLinearizable))),
		second(newEngine(t).Once(bounded(t), "a", nothing, fencepgx.WithDatabase(nil))),
		second(newEngine(t).Once(bounded(t), "a", nothing, fencepgx.WithDatabase(pool, one))),
		second(fencepgx.Sweep(bounded(t), nil, time.Hour)),
		second(fencepgx.Sweep(bounded(t), pool, 0)),
	} {
		expect(t, err, core.ErrInvalidOption)
	}
}

func second[T any](_ T, err error) error { return err }

// Old marks go, in more than one statement; a new one stays.
func TestPgxSweep(t *testing.T) {
	db, pool := pgxPool(t)
	db.run(t, `INSERT INTO keyturn_mark (id, at, kept) SELECT CAST(CAST(n AS text) AS bytea), 0, 0 FROM generate_series(1, 1200) n`)
	_, err := fencepgx.Once(bounded(t), pool, "new", func(context.Context, pgx.Tx) ([]byte, error) { return nil, nil })
	must(t, err)
	if n, err := fencepgx.Sweep(bounded(t), pool, time.Hour); n != 1200 || err != nil {
		t.Errorf("%d marks of 1200, %v", n, err)
	}
	if n := db.number(t, `SELECT count(*) FROM keyturn_mark`); n != 1 {
		t.Errorf("%d marks are left", n)
	}
}

// Every engine forgets what it did. The mark does not. A server that is down, or has become
// read-only under a pooled connection, is an outage. A missing table is not.
func TestPgxWithDatabase(t *testing.T) {
	t.Parallel()
	server := sqltest.StartPostgres(t)
	db := newDatabase(t, fence.Postgres, server.Database(t), sql.LevelDefault)
	db.run(t, `CREATE TABLE effect (n INT)`)
	pool, err := pgxpool.New(bounded(t), db.DSN()+"&pool_max_conns=1")
	must(t, err)
	defer pool.Close()
	once := func(id string) (core.Outcome, error) {
		return newEngine(t).Once(bounded(t), id, func(ctx context.Context) ([]byte, error) { return []byte("first"), pgxEffect(ctx) },
			fencepgx.WithDatabase(pool))
	}
	for i := range 3 {
		if out, err := once("k"); err != nil || string(out.Result) != "first" || out.Duplicate != (i > 0) {
			t.Errorf("%d: %+v, %v", i, out, err)
		}
	}
	_, err = pool.Exec(bounded(t), `SET default_transaction_read_only = on`)
	must(t, err)
	expect(t, second(once("another")), core.ErrUnavailable)
	must(t, second(once("another"))) // the pool has dropped the connection
	db.run(t, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()`)
	must(t, second(once("a third"))) // the one in the pool was dead
	if n := db.number(t, `SELECT count(*) FROM effect`); n != 3 {
		t.Errorf("%d effects of 3", n)
	}
	db.run(t, `DROP TABLE keyturn_mark`)
	if _, err := once("no table"); err == nil || errors.Is(err, core.ErrUnavailable) {
		t.Errorf("without the table: %v", err)
	}
	server.Kill()
	expect(t, second(once("down")), core.ErrUnavailable)
}

// The connection breaks around the COMMIT: before the server gets it, or before its answer
// arrives. Once finds out which, and there is one effect in any case.
func TestPgxCommitWithoutAnswer(t *testing.T) {
	db := newDatabase(t, fence.Postgres, open(t, fence.Postgres), sql.LevelDefault)
	db.run(t, `CREATE TABLE effect (n INT)`)
	for name, fault := range map[string]func(*servertest.Proxy){
		"lost":     (*servertest.Proxy).Cut,
		"answered": (*servertest.Proxy).CutReplies,
	} {
		proxy := servertest.NewProxy(t, db.Server.Addr())
		var hit sync.Once
		pool, err := newWatchedPgx(db.DSNAt(proxy.Addr()), func(point string) {
			if point == beforeCommit {
				hit.Do(func() {
					fault(proxy)
					time.AfterFunc(200*time.Millisecond, proxy.Heal)
				})
			}
		})
		must(t, err)
		out, err := fencepgx.Once(bounded(t), pool, name, func(ctx context.Context, _ pgx.Tx) ([]byte, error) {
			return []byte("done"), pgxEffect(ctx)
		})
		pool.Close()
		if err != nil || string(out.Result) != "done" || out.Duplicate != (name == "answered") {
			t.Errorf("%s: %q, duplicate %v, %v", name, out.Result, out.Duplicate, err)
		}
	}
	if n := db.number(t, `SELECT count(*) FROM effect`); n != 2 {
		t.Errorf("%d effects of 2 messages", n)
	}
}
