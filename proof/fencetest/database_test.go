package fencetest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/fence"
	"github.com/keyturn/keyturn/internal/servertest"
	lockecho "github.com/keyturn/keyturn/middleware/echo"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
	"github.com/keyturn/keyturn/store/memstore"
)

func newEngine(t *testing.T, opts ...core.EngineOption) *core.Engine {
	t.Helper()
	eng, err := core.New(memstore.New(), opts...)
	must(t, err)
	t.Cleanup(func() { _ = eng.Close(context.Background()) })
	return eng
}

// insert is an effect in the transaction of the context.
func insert(ctx context.Context) error {
	tx, ok := fence.TxFrom(ctx)
	if !ok {
		return errors.New("the context has no transaction")
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO effect VALUES (1)`)
	return err
}

// Every engine forgets what it did, as after a loss of the store's data. The mark does not.
func TestWithDatabaseRemembers(t *testing.T) {
	onEachLevel(t, func(t *testing.T, db *database) {
		db.run(t, `CREATE TABLE effect (n INT)`)
		option := fence.WithDatabase(db.DB, db.dialect, fence.WithIsolation(db.level))
		for i := range 3 {
			out, err := newEngine(t).Once(bounded(t), "k", func(ctx context.Context) ([]byte, error) { return []byte("first"), insert(ctx) }, option)
			if err != nil || string(out.Result) != "first" || out.Duplicate != (i > 0) {
				t.Errorf("%d: %+v, %v", i, out, err)
			}
		}
		must(t, second(newEngine(t).Once(bounded(t), "large", func(context.Context) ([]byte, error) { return make([]byte, 10), nil }, option, core.WithResultLimit(9), core.WithFingerprint([]byte("a")))))
		expect(t, second(newEngine(t).Once(bounded(t), "large", nothing, option)), core.ErrResultNotKept)
		expect(t, second(newEngine(t).Once(bounded(t), "large", nothing, option, core.WithFingerprint([]byte("b")))), core.ErrFingerprintMismatch)
		db.hasEffects(t, 1)
	})
}

func nothing(context.Context) ([]byte, error) { return nil, errors.New("it ran") }

// What is not stored is not done: an answer of 500, a lost lease, a client that hung up.
func TestWithDatabaseRollsBack(t *testing.T) {
	onEach(t, func(t *testing.T, db *database) {
		db.run(t, `CREATE TABLE effect (n INT)`)
		option := fence.WithDatabase(db.DB, db.dialect)
		own, fails := errors.New("own"), true
		expect(t, second(newEngine(t).Once(bounded(t), "own", func(ctx context.Context) ([]byte, error) { return nil, errors.Join(insert(ctx), own) }, option)), own)
		guards, err := lockecho.New(newEngine(t), lockhttp.Idempotency("*", lockhttp.AnyCaller, option))
		must(t, err)
		locks, err := lockhttp.New(newEngine(t), lockhttp.Idempotency("*", lockhttp.AnyCaller, option))
		must(t, err)
		e := echo.New()
		e.POST("/", func(c echo.Context) error {
			err := insert(c.Request().Context())
			if fails {
				return echo.NewHTTPError(http.StatusInternalServerError, "after the effect")
			}
			return errors.Join(err, c.String(http.StatusOK, "done"))
		}, guards.Middleware)
		plain := locks.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := insert(r.Context()); err != nil || fails {
				http.Error(w, "after the effect", http.StatusInternalServerError)
			}
		}))
		for name, h := range map[string]http.Handler{"echo": e, "http": plain} {
			for _, c := range []struct {
				fails   bool
				status  int
				effects int64
			}{{true, 500, 0}, {false, 200, 1}, {true, 200, 1}} {
				fails = c.fails
				req := httptest.NewRequestWithContext(bounded(t), http.MethodPost, "/", strings.NewReader("{}"))
				req.Header.Set("Idempotency-Key", fmt.Sprintf("%q", name))
				w := httptest.NewRecorder()
				h.ServeHTTP(w, req)
				if n := db.number(t, `SELECT count(*) FROM effect`); w.Code != c.status || n != c.effects {
					t.Errorf("%s: answer %d and %d effects, want %d and %d", name, w.Code, n, c.status, c.effects)
				}
			}
			db.run(t, `DELETE FROM effect`)
		}

		_, err = newEngine(t).Once(bounded(t), "lost", func(ctx context.Context) ([]byte, error) {
			err := insert(ctx)
			<-ctx.Done()
			return nil, err // as if it had not noticed
		}, option, core.WithMaxHold(500*time.Millisecond)) // long enough for the insert
		expect(t, err, core.ErrLeaseLost)
		check(t, !errors.Is(err, context.Canceled), "the caller has cancelled nothing: %v", err)
		ctx, cancel := context.WithCancel(bounded(t))
		_, err = newEngine(t).Once(ctx, "gone", func(ctx context.Context) ([]byte, error) {
			defer cancel()
			return nil, insert(ctx)
		}, option)
		expect(t, err, context.Canceled)
		db.hasEffects(t, 0)
	})
}

// A deadlock after the handler's effect: the handler does not run twice in one call, and the caller
// is told to come again.
func TestWithDatabaseInADeadlock(t *testing.T) {
	onEach(t, func(t *testing.T, db *database) {
		if db.dialect == fence.SQLite {
			return // one transaction writes at a time
		}
		db.run(t, `CREATE TABLE effect (n INT)`, `CREATE TABLE account (id INT PRIMARY KEY, n INT)`, `INSERT INTO account VALUES (1, 0), (2, 0)`)
		eng := newEngine(t)
		var errs [2]error
		var ran [2]int
		atOnce(2, func(i int, meet func()) {
			_, errs[i] = eng.Once(bounded(t), fmt.Sprint("k", i), func(ctx context.Context) ([]byte, error) {
				ran[i]++
				tx, _ := fence.TxFrom(ctx)
				_, _ = tx.ExecContext(ctx, fmt.Sprintf(`UPDATE account SET n = n + 1 WHERE id = %d`, 1+i))
				meet()
				_, _ = tx.ExecContext(ctx, fmt.Sprintf(`UPDATE account SET n = n + 1 WHERE id = %d`, 2-i))
				return nil, nil // a careless handler, which forgets the error
			}, fence.WithDatabase(db.DB, db.dialect))
		})
		failed := 0
		for i := range errs {
			if errs[i] != nil {
				failed++
				if db.dialect == fence.MySQL { // PostgreSQL only says that the transaction is aborted
					expect(t, errs[i], core.ErrRolledBack)
				}
			}
			check(t, ran[i] == 1, "handler %d ran %d times", i, ran[i])
		}
		if n := db.number(t, `SELECT sum(n) FROM account`); failed != 1 || n != 2 {
			t.Errorf("%v, and the sum is %d", errs, n)
		}
	})
}

// A database that is cut off, or has become read-only under a pooled connection, is an outage. The pool drops
// that connection, so the next try may find the new primary. A missing table is none.
func TestWithDatabaseInAnOutage(t *testing.T) {
	onEachClient(t, func(t *testing.T, db *database, driver string) {
		demote := `SET default_transaction_read_only = on`
		switch {
		case db.dialect == fence.SQLite:
			return // it has no server
		case db.dialect == fence.MySQL:
			demote = `SET SESSION TRANSACTION READ ONLY`
		case driver == "postgres": // pq begins each transaction READ WRITE, so only a standby would refuse it
			demote = ""
		}
		db.run(t, `CREATE TABLE effect (n INT)`)
		network := servertest.NewProxy(t, db.Server.Addr())
		c := db.connectBy(t, 1, driver, db.DSNAt(network.Addr()))
		after := func() {} // the handler has run
		once := func() error {
			_, err := newEngine(t).Once(bounded(t), "k", func(ctx context.Context) ([]byte, error) {
				defer after()
				return nil, c.insert(ctx, `INSERT INTO effect VALUES (1)`)
			}, c.withDatabase())
			return err
		}
		if demote != "" {
			must(t, c.insert(bounded(t), demote))
			expect(t, once(), core.ErrUnavailable)
		}
		after = network.Cut
		expect(t, once(), core.ErrRolledBack) // it is no outage, in which nothing has run
		after = func() {}
		network.Heal()
		must(t, once())
		db.hasEffects(t, 1)
		db.run(t, `DROP TABLE keyturn_mark`)
		if err := once(); err == nil || errors.Is(err, core.ErrUnavailable) {
			t.Errorf("without the table: %v", err)
		}
		network.Cut()
		expect(t, once(), core.ErrUnavailable)
	})
}

// A database that is not there, a wrong account, or no directory: the database's answer is to no statement.
func TestWithDatabaseThatLetsNobodyIn(t *testing.T) {
	onEachClient(t, func(t *testing.T, db *database, driver string) {
		dsn := strings.NewReplacer("/test", "/nosuch", "root@", "nobody:wrong@", "file:", "file:/nosuch").Replace(db.DSN())
		c := db.connect(t, driver, dsn, func() {})
		expect(t, second(newEngine(t).Once(bounded(t), "k", nothing, c.withDatabase())), core.ErrUnavailable)
	})
}
