package fencetest

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/fence"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/sqltest"
)

// Two transactions lock two names in opposite orders. The database ends one of them, and Once
// repeats it.
func TestDeadlock(t *testing.T) {
	onEachLevel(t, func(t *testing.T, db *database) {
		if db.dialect == fence.SQLite {
			return // one transaction writes at a time
		}
		must(t, db.in(t, func(tx *transaction) error {
			return errors.Join(tx.Lock(bounded(t), "a"), tx.Lock(bounded(t), "b"))
		}))
		var tries, retries atomic.Int32
		atOnce(2, func(i int, meet func()) {
			_, err := db.once(t, fmt.Sprint("order", i), func(ctx context.Context, tx *sql.Tx) ([]byte, error) {
				tries.Add(1)
				g, names := fence.On(tx, db.dialect), []string{"a", "b", "a"}[i:]
				err := g.Lock(ctx, names[0])
				meet() // both have their first
				if err != nil {
					return nil, err
				}
				if err = g.Lock(ctx, names[1]); errors.Is(err, fence.ErrRetry) {
					retries.Add(1)
				}
				return nil, err
			})
			if err != nil {
				t.Error(err)
			}
		})
		check(t, retries.Load() != 0 && tries.Load() >= 3, "%d tries, %d deadlocks", tries.Load(), retries.Load())
	})
}

// Write skew: each of two transactions reads what the other one writes. At SERIALIZABLE the
// database refuses one of them, PostgreSQL perhaps only at its COMMIT.
func TestSerializationFailure(t *testing.T) {
	onEachLevel(t, func(t *testing.T, db *database) {
		if db.level != sql.LevelSerializable {
			return
		}
		db.run(t, `CREATE TABLE doctor (id INT PRIMARY KEY, on_call INT)`, `INSERT INTO doctor VALUES (1, 1), (2, 1)`)
		var tries atomic.Int32
		atOnce(2, func(i int, meet func()) {
			_, err := db.once(t, fmt.Sprint("leave", i), func(ctx context.Context, tx *sql.Tx) ([]byte, error) {
				tries.Add(1)
				var on int
				err := tx.QueryRowContext(ctx, `SELECT count(*) FROM doctor WHERE on_call = 1`).Scan(&on)
				meet()
				if err != nil || on < 2 {
					return nil, err
				}
				return nil, second(tx.ExecContext(ctx, fmt.Sprintf(`UPDATE doctor SET on_call = 0 WHERE id = %d`, 1+i)))
			})
			if err != nil {
				t.Error(err)
			}
		})
		n := db.number(t, `SELECT count(*) FROM doctor WHERE on_call = 1`)
		check(t, n == 1 && tries.Load() >= 3, "%d doctors are on call, after %d tries", n, tries.Load())
	})
}

// The database's own timeout for locks: MySQL rolls back only the statement, so the caller must
// roll back the rest.
func TestLockTimeoutOfTheDatabase(t *testing.T) {
	onEach(t, func(t *testing.T, db *database) {
		setting := map[fence.Dialect]string{
			fence.MySQL:    `SET innodb_lock_wait_timeout = 1`,
			fence.SQLite:   `PRAGMA busy_timeout = 50`,
			fence.Postgres: `SET lock_timeout = '50ms'`,
		}[db.dialect]
		guards := make([]*fence.Guard, 2)
		for i := range guards {
			conn, err := db.Conn(bounded(t))
			must(t, err)
			defer conn.Close()
			defer conn.ExecContext(context.Background(), `ROLLBACK`)
			for _, s := range []string{setting, `BEGIN`} {
				must(t, second(conn.ExecContext(bounded(t), s)))
			}
			guards[i] = fence.On(conn, db.dialect)
		}
		must(t, guards[0].Check(bounded(t), "a", 1))
		expect(t, guards[1].Check(bounded(t), "a", 2), fence.ErrRetry)
	})
}

// A transaction that has read cannot write what another one has written since. SQLite says
// "database is locked" at once, without waiting.
func TestSnapshotOfSQLiteIsOld(t *testing.T) {
	data := sqltest.SQLite(t)
	db := newDatabase(t, fence.SQLite, data, 0)
	deferred, err := sql.Open(data.Driver, strings.Replace(data.DSN(), "_txlock=immediate", "_txlock=deferred", 1))
	must(t, err)
	defer deferred.Close()
	tx, err := deferred.BeginTx(bounded(t), nil)
	must(t, err)
	defer tx.Rollback()
	var n int
	must(t, tx.QueryRowContext(bounded(t), `SELECT count(*) FROM keyturn_mark`).Scan(&n))
	must(t, second(db.once(t, "another", func(context.Context, *sql.Tx) ([]byte, error) { return nil, nil })))
	expect(t, second(fence.On(tx, fence.SQLite).Mark(bounded(t), "id")), fence.ErrRetry)
}

// The connection breaks around the COMMIT: before the server gets it, or before its answer
// arrives. The call finds out which, and there is one effect in any case. Its own mark makes it no
// duplicate, so it has the result that nobody keeps; the mark of a call that came in between does.
func TestCommitWithoutAnswer(t *testing.T) {
	onEachClient(t, func(t *testing.T, db *database, driver string) {
		if db.dialect == fence.SQLite {
			return // it is in this process
		}
		db.run(t, `CREATE TABLE effect (n INT)`)
		for fault, lose := range map[string]func(p *servertest.Proxy, id string){
			"lost":     func(p *servertest.Proxy, _ string) { p.Cut() },
			"answered": func(p *servertest.Proxy, _ string) { p.CutReplies() },
			"overtaken": func(p *servertest.Proxy, id string) {
				p.Cut()
				must(t, second(db.once(t, id, func(ctx context.Context, _ *sql.Tx) ([]byte, error) { return []byte("another's"), insert(ctx) })))
			},
		} {
			for _, way := range []string{"Once", "WithDatabase", "OneAttempt"} {
				db.run(t, `DELETE FROM effect`)
				proxy, id, ran := servertest.NewProxy(t, db.Server.Addr()), fault+way, 0
				var hit sync.Once
				c := db.connect(t, driver, db.DSNAt(proxy.Addr()), func() {
					hit.Do(func() {
						lose(proxy, id)
						time.AfterFunc(200*time.Millisecond, proxy.Heal)
					})
				})
				ways := bothWays(t, c)
				ways["OneAttempt"] = func(id string, fn work) (core.Outcome, error) {
					return c.once(bounded(t), id, fn, fence.WithAttempts(1))
				}
				out, err := ways[way](id, func(ctx context.Context) ([]byte, error) {
					ran++
					return []byte("done"), cmp.Or(c.insert(ctx, `INSERT INTO effect VALUES (1)`), core.ErrSkipResult)
				})
				switch id {
				case "lostWithDatabase": // the handler does not run twice
					expect(t, err, core.ErrRolledBack)
					continue
				case "lostOneAttempt":
					check(t, err != nil && !errors.Is(err, core.ErrOutcomeUnknown) && ran == 1, "it ran %d times: %v", ran, err)
					continue
				}
				got := fmt.Sprintf("%s, duplicate %v, %d runs", out.Result, out.Duplicate, ran)
				want := map[string]string{"lost": "done, duplicate false, 2 runs", "answered": "done, duplicate false, 1 runs", "overtaken": "another's, duplicate true, 1 runs"}[fault]
				check(t, err == nil && got == want, "%s: %s, %v", id, got, err)
				db.hasEffects(t, 1)
			}
		}
	})
}

// As long as nobody can be asked, the outcome is unknown, and the error says so.
func TestCommitWithoutAnswerForLong(t *testing.T) {
	t.Parallel()
	servertest.Long(t)
	for dialect, server := range servers {
		t.Run(dialect.String(), func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t, dialect, server(t), sql.LevelDefault)
			db.run(t, `CREATE TABLE effect (id VARCHAR(20))`)
			proxy := servertest.NewProxy(t, db.Server.Addr())
			var first sync.Once
			c := db.connect(t, db.Database.Driver, db.DSNAt(proxy.Addr()), func() { first.Do(proxy.CutReplies) })
			run := func() (core.Outcome, error) {
				return c.once(bounded(t), "id", func(ctx context.Context) ([]byte, error) {
					return []byte("done"), c.insert(ctx, `INSERT INTO effect VALUES ('id')`)
				})
			}
			err := second(run()) // the wait for the COMMIT takes 5 s, and so does the question
			expect(t, err, core.ErrOutcomeUnknown)
			check(t, !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded), "the caller has not gone: %v", err)
			proxy.Heal()
			out, err := run()
			check(t, err == nil && string(out.Result) == "done" && db.number(t, `SELECT count(*) FROM effect`) == 1, "the repeat: %q, %v", out.Result, err)
		})
	}
}

// A server that restarts, or an administrator, ends all connections of a pool. To begin a
// transaction is safe to repeat, but pgx returned 57P01 to the caller as long as there was an old
// connection.
func TestKilledConnections(t *testing.T) {
	const conns = 8
	rounds := 3
	if testing.Short() {
		rounds = 1
	}
	onEachClient(t, func(t *testing.T, db *database, driver string) {
		if db.dialect == fence.SQLite {
			return // it has no server
		}
		db.run(t, `CREATE TABLE effect (n INT)`)
		c := db.connectBy(t, conns, driver, db.DSN())
		for round := range rounds {
			atOnce(conns, func(n int, meet func()) {
				_, err := c.once(bounded(t), fmt.Sprint(round, n), func(ctx context.Context) ([]byte, error) {
					meet()
					return nil, c.insert(ctx, `INSERT INTO effect VALUES (1)`)
				})
				if err != nil {
					t.Error(err)
				}
			})
			db.EndConnections(t)
			for name, once := range bothWays(t, c) {
				if _, err := once(fmt.Sprint(round, name), func(ctx context.Context) ([]byte, error) {
					return nil, c.insert(ctx, `INSERT INTO effect VALUES (1)`)
				}); err != nil {
					t.Error(name, err)
				}
				db.EndConnections(t)
			}
		}
		_, err := c.once(bounded(t), "inside", func(ctx context.Context) ([]byte, error) {
			defer db.EndConnections(t) // its own connection, in the middle of the transaction
			return nil, c.insert(ctx, `INSERT INTO effect VALUES (1)`)
		})
		if err == nil {
			t.Error("its connection was killed, and it succeeded")
		}
		_ = db.Ping() // drops the test's own connection, which was killed, too
		db.hasEffects(t, int64(rounds*(conns+2)))
	})
}
