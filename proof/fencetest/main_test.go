package fencetest

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"log"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/fence"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/sqltest"
	_ "github.com/keyturn/keyturn/proof/drivers"
)

func TestMain(m *testing.M) {
	actAsWorker()
	// go-sql-driver tells its log of each connection that breaks.
	_ = mysql.SetLogger(log.New(io.Discard, "", 0)) // it refuses only nil
	// GORM's cache of prepared statements has a goroutine that nothing ends.
	goleak.VerifyTestMain(sqltest.Main(m), goleak.IgnoreTopFunction("gorm.io/gorm/internal/lru.NewLRU[...].func1"))
}

// dialects are the databases that every test runs on, and the isolation levels they have.
var dialects = []struct {
	dialect fence.Dialect
	levels  []sql.IsolationLevel
}{
	{fence.SQLite, []sql.IsolationLevel{sql.LevelDefault}},
	{fence.Postgres, []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable}},
	{fence.MySQL, []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable}},
}

// database is a database with the tables of package fence, and nothing in them.
type database struct {
	*sqltest.Database
	*sql.DB
	dialect fence.Dialect
	level   sql.IsolationLevel
}

// onDialects runs a test on all dialects at the same time, and beside other tests.
func onDialects(t *testing.T, test func(t *testing.T, d fence.Dialect, levels []sql.IsolationLevel)) {
	t.Parallel()
	for _, d := range dialects {
		t.Run(d.dialect.String(), func(t *testing.T) {
			t.Parallel()
			test(t, d.dialect, d.levels)
		})
	}
}

// onEach runs a test on all dialects, with the default level of each.
func onEach(t *testing.T, test func(t *testing.T, db *database)) {
	onDialects(t, func(t *testing.T, d fence.Dialect, levels []sql.IsolationLevel) {
		test(t, newDatabase(t, d, open(t, d), levels[0]))
	})
}

// onEachLevel runs a test on all dialects, at one level after the other. In the short run each has one level.
func onEachLevel(t *testing.T, test func(t *testing.T, db *database)) {
	onDialects(t, func(t *testing.T, d fence.Dialect, levels []sql.IsolationLevel) {
		if testing.Short() {
			levels = levels[:1]
		}
		for _, level := range levels {
			t.Run(level.String(), func(t *testing.T) { test(t, newDatabase(t, d, open(t, d), level)) })
		}
	})
}

// lasting is a test whose databases live as long as the test binary. To make one takes a second.
type lasting struct{ testing.TB }

func (lasting) Cleanup(func()) {}

// servers make a database of its own for a test that runs beside others.
var servers = map[fence.Dialect]func(testing.TB) *sqltest.Database{fence.Postgres: sqltest.Postgres, fence.MySQL: sqltest.MySQL}

// idle has some databases of each server, which are emptied for the next test; nil: it is not made yet.
var idle = map[fence.Dialect]chan *sqltest.Database{fence.Postgres: make(chan *sqltest.Database, 3), fence.MySQL: make(chan *sqltest.Database, 3)}

func init() {
	for _, databases := range idle {
		for range cap(databases) {
			databases <- nil
		}
	}
}

// open returns an empty database, which no other test has until this one ends. A test has one at a time.
func open(t *testing.T, d fence.Dialect) *sqltest.Database {
	t.Helper()
	if d == fence.SQLite {
		return sqltest.SQLite(t)
	}
	data := <-idle[d]
	if data == nil {
		data = servers[d](lasting{t})
	}
	t.Cleanup(func() { idle[d] <- data })
	db := &database{Database: data, DB: data.Open(t)}
	if d == fence.Postgres {
		db.run(t, `DROP SCHEMA public CASCADE`, `CREATE SCHEMA public`)
		return data
	}
	rows, err := db.QueryContext(bounded(t), `SELECT table_name FROM information_schema.tables WHERE table_schema = database()`)
	must(t, err)
	defer rows.Close()
	for rows.Next() {
		var name string
		must(t, rows.Scan(&name))
		db.run(t, `DROP TABLE `+name)
	}
	must(t, rows.Err())
	return data
}

func newDatabase(t *testing.T, d fence.Dialect, data *sqltest.Database, level sql.IsolationLevel) *database {
	t.Helper()
	db := &database{Database: data, DB: data.Open(t), dialect: d, level: level}
	statements, err := fence.Schema(d)
	must(t, err)
	for range 2 { // the second time nothing happens
		db.run(t, statements...)
	}
	return db
}

// run runs statements, each on its own.
func (db *database) run(t testing.TB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := db.DB.ExecContext(bounded(t), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// number reads one number.
func (db *database) number(t testing.TB, query string) (n int64) {
	t.Helper()
	var got sql.NullInt64
	if err := db.QueryRowContext(bounded(t), query).Scan(&got); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return got.Int64
}

// hasEffects checks how many rows are in the table that is for effects.
func (db *database) hasEffects(t testing.TB, want int64) {
	t.Helper()
	n := db.number(t, `SELECT count(*) FROM effect`)
	check(t, n == want, "%d effects, want %d", n, want)
}

// begin begins a transaction at the database's level. The test's end rolls it back.
func (db *database) begin(t testing.TB) *transaction {
	t.Helper()
	tx, err := db.BeginTx(bounded(t), &sql.TxOptions{Isolation: db.level})
	must(t, err)
	t.Cleanup(func() { _ = tx.Rollback() })
	return &transaction{Tx: tx, Guard: fence.On(tx, db.dialect)}
}

// transaction is one with its guard.
type transaction struct {
	*sql.Tx
	*fence.Guard
}

// in runs fn in a transaction, and repeats it as long as the database asks for it.
func (db *database) in(t testing.TB, fn func(tx *transaction) error) error {
	t.Helper()
	ctx := bounded(t)
	try := func() error {
		tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: db.level})
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := fn(&transaction{Tx: tx, Guard: fence.On(tx, db.dialect)}); err != nil {
			return err
		}
		return tx.Commit()
	}
	for {
		err := try()
		if !fence.Retryable(err) || ctx.Err() != nil {
			return err
		}
		time.Sleep(rand.N(10 * time.Millisecond))
	}
}

// bounded is a context for a test's calls: a hang becomes a failure.
func bounded(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// must fails the test at once.
var must, check = checktest.Must, checktest.That

// second is the error of a call that returns two values.
func second[T any](_ T, err error) error { return err }

// expect fails the test if err does not match all of want.
func expect(t testing.TB, err error, want ...error) {
	t.Helper()
	for _, w := range want {
		check(t, errors.Is(err, w), "got %v, want %v", err, w)
	}
}

// waits checks that a call does not return before it is let go, and that it does afterwards.
func waits(t testing.TB, call func() error, letGo func()) error {
	t.Helper()
	done := checktest.Async(call)
	select {
	case err := <-done:
		t.Errorf("it did not wait: %v", err)
		letGo()
		return err
	case <-time.After(100 * time.Millisecond):
	}
	letGo()
	select {
	case err := <-done:
		return err
	case <-time.After(20 * time.Second):
		t.Fatal("it waits for ever")
		return nil
	}
}

// atOnce calls do n times at the same time, and returns when all have ended. In meet each waits until all have come.
func atOnce(n int, do func(i int, meet func())) {
	var ready, all sync.WaitGroup
	ready.Add(n)
	for i := range n {
		all.Go(func() {
			var met sync.Once
			defer met.Do(ready.Done) // it may have failed before
			do(i, func() { met.Do(ready.Done); ready.Wait() })
		})
	}
	all.Wait()
}
