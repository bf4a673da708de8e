package fencetest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/fence"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/sqltest"
	lockfunc "github.com/keyturn/keyturn/middleware/func"
)

// A deferred constraint that fails at the COMMIT is the caller's own error. On SQLite, Once ran the
// function ten times and did not know the outcome, and WithDatabase said that another transaction
// was in the way. MariaDB defers no constraint.
func TestDeferredConstraintIsTheCallersError(t *testing.T) {
	onEachClient(t, func(t *testing.T, db *database, driver string) {
		if db.dialect == fence.MySQL {
			return
		}
		db.run(t, `CREATE TABLE parent (n INT PRIMARY KEY)`,
			`CREATE TABLE effect (n INT REFERENCES parent (n) DEFERRABLE INITIALLY DEFERRED)`)
		dsn := db.DSN()
		if db.dialect == fence.SQLite {
			dsn += "&_pragma=foreign_keys(1)"
		}
		c := db.connect(t, driver, dsn, func() {})
		ran := 0
		fn := func(ctx context.Context) ([]byte, error) {
			ran++
			return nil, c.insert(ctx, `INSERT INTO effect VALUES (1)`)
		}
		for name, once := range bothWays(t, c) {
			ran = 0
			_, err := once(name, fn)
			check(t, err != nil && ran == 1, "%s: %v, after %d runs", name, err, ran)
			for _, wrong := range []error{core.ErrOutcomeUnknown, core.ErrRolledBack, core.ErrUnavailable, fence.ErrRetry} {
				check(t, !errors.Is(err, wrong), "%s: %v", name, err)
			}
		}
		db.run(t, `INSERT INTO parent VALUES (1)`)
		must(t, second(c.once(bounded(t), "Once", fn))) // nothing was marked
		db.hasEffects(t, 1)
	})
}

// MariaDB refuses the COMMIT of a server that has become read-only, and that of a transaction that
// waits too long for a backup's lock. Both prove a rollback. A statement that somebody kills does not.
func TestCommitRefusedByMariaDB(t *testing.T) {
	servertest.Long(t)
	db := newDatabase(t, fence.MySQL, open(t, fence.MySQL), 0)
	db.run(t, `CREATE TABLE effect (n INT)`, `CREATE USER IF NOT EXISTS plain`, `GRANT ALL ON *.* TO plain`,
		`REVOKE SUPER, READ_ONLY ADMIN ON *.* FROM plain`)
	admin, err := db.Conn(bounded(t))
	must(t, err)
	defer admin.Close()
	send := func(statement string) {
		must(t, second(admin.ExecContext(bounded(t), statement)))
	}
	for name, c := range map[string]struct {
		before, after string
		kill          bool
		runs          int
		fails         bool
	}{
		"read-only": {before: `SET GLOBAL read_only = 1`, after: `SET GLOBAL read_only = 0`, runs: 1, fails: true},
		"backup":    {before: `FLUSH TABLES WITH READ LOCK`, after: `UNLOCK TABLES`, runs: 2},
		"killed":    {before: `FLUSH TABLES WITH READ LOCK`, after: `UNLOCK TABLES`, runs: 2, kill: true},
	} {
		t.Run(name, func(t *testing.T) {
			var first sync.Once
			var done sync.WaitGroup
			dsn := "plain" + db.DSN()[len("root"):] + "?lock_wait_timeout=1"
			if c.kill {
				dsn = "plain" + db.DSN()[len("root"):]
			}
			far := db.connect(t, "mysql", dsn, func() {
				first.Do(func() {
					send(c.before)
					done.Go(func() {
						if c.kill {
							db.killCommit(t)
						}
						time.Sleep(1500 * time.Millisecond) // longer than lock_wait_timeout
						send(c.after)
					})
				})
			})
			ran := 0
			_, err := far.once(bounded(t), name, func(ctx context.Context) ([]byte, error) {
				ran++
				return nil, far.insert(ctx, `INSERT INTO effect VALUES (1)`)
			})
			done.Wait()
			if (err != nil) != c.fails || ran != c.runs || errors.Is(err, core.ErrOutcomeUnknown) {
				t.Errorf("%v after %d runs, want %d", err, ran, c.runs)
			}
		})
	}
	db.hasEffects(t, 2)
}

// killCommit ends the COMMIT that waits, as somebody does who looks for what hangs.
func (db *database) killCommit(t testing.TB) {
	for {
		if id := db.number(t, `SELECT max(id) FROM information_schema.processlist WHERE user = 'plain' AND info LIKE 'COMMIT%'`); id != 0 {
			if _, err := db.DB.ExecContext(bounded(t), `KILL QUERY ?`, id); err == nil {
				return
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// pgbouncer loses the answer to a COMMIT, and says 08P01. That counted as a refusal, and the mark
// was not asked.
func TestPgbouncerLosesTheAnswerToCommit(t *testing.T) {
	t.Parallel()
	servertest.Long(t)
	db := newDatabase(t, fence.Postgres, sqltest.Postgres(t), 0)
	db.run(t, `CREATE TABLE effect (n INT)`)
	for _, driver := range drivers[fence.Postgres] {
		for fault, lose := range map[string]func(*servertest.Proxy){
			"lost":     (*servertest.Proxy).Cut,
			"answered": func(p *servertest.Proxy) { p.CutReplies(); time.AfterFunc(200*time.Millisecond, p.Cut) },
		} {
			t.Run(driver+"/"+fault, func(t *testing.T) {
				proxy := servertest.NewProxy(t, db.Server.Addr())
				dsn := db.DSNAt(sqltest.BouncerTo(t, proxy.Addr(), "server_login_retry = 0.1").Addr())
				if driver != "postgres" {
					dsn += "&default_query_exec_mode=exec"
				} else {
					dsn += "&binary_parameters=yes"
				}
				var faulty atomic.Bool
				c := db.connect(t, driver, dsn, func() {
					if faulty.CompareAndSwap(true, false) {
						lose(proxy)
						time.AfterFunc(400*time.Millisecond, proxy.Heal)
					}
				})
				for name, once := range bothWays(t, c) {
					db.run(t, `DELETE FROM effect`)
					faulty.Store(true)
					out, err := once(driver+fault+name, func(ctx context.Context) ([]byte, error) {
						return []byte("done"), c.insert(ctx, `INSERT INTO effect VALUES (1)`)
					})
					n := db.number(t, `SELECT count(*) FROM effect`)
					if name == "WithDatabase" && fault == "lost" { // the handler does not run twice
						expect(t, err, core.ErrRolledBack)
						check(t, n == 0, "%d effects of a COMMIT that was lost", n)
						continue
					}
					check(t, err == nil && string(out.Result) == "done" && n == 1, "%s: %q, %v, and %d effects", name, out.Result, err, n)
				}
			})
		}
	}
}

// A handler that returns the deadlock of its own statement asks the caller to come again, too. And if
// a COMMIT was lost, the error of ErrRolledBack has the cause.
func TestHandlersOwnDeadlockIsRolledBack(t *testing.T) {
	onEachClient(t, func(t *testing.T, db *database, driver string) {
		c := db.connect(t, driver, db.DSN(), func() {})
		own := errors.Join(errors.New("own"), fence.ErrRetry)
		ran := 0
		fails := func(context.Context, string) ([]byte, error) {
			ran++
			return nil, own
		}
		_, err := newEngine(t).Once(bounded(t), "k", func(ctx context.Context) ([]byte, error) { return fails(ctx, "k") }, c.withDatabase())
		expect(t, err, own, core.ErrRolledBack)
		deliver, err := lockfunc.Once(lockfunc.New(newEngine(t)), "deliver", func(id string) string { return id }, fails, c.withDatabase())
		must(t, err)
		expect(t, second(deliver(bounded(t), "k")), own, core.ErrRolledBack)
		check(t, ran == 2, "%d runs of 2 calls", ran)
	})
}
