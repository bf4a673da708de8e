package dbtest

import (
	"context"
	"database/sql"
	"flag"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/sqltest"
	"github.com/keyturn/keyturn/internal/storetest"
	_ "github.com/keyturn/keyturn/proof/drivers"
	"github.com/keyturn/keyturn/store/sqlstore"
)

func TestMain(m *testing.M) {
	// Nearly all that these tests do is to wait for leases to end.
	flag.Parse()
	_ = flag.Set("test.parallel", "10")
	goleak.VerifyTestMain(sqltest.Main(m))
}

var (
	must    = checktest.Must
	check   = checktest.That
	request = storetest.Request
	take    = storetest.Hold
	use     = storetest.Use
	enqueue = storetest.Enqueue
)

// silent is for stores whose server is broken on purpose, or has settings that are warned of.
var silent = sqlstore.WithLogger(slog.New(slog.DiscardHandler))

// dialects are the databases that the store claims.
var dialects = map[string]struct {
	sqlstore.Dialect
	database func(testing.TB) *sqltest.Database
}{
	"postgres": {sqlstore.Postgres, sqltest.Postgres},
	"mysql":    {sqlstore.MySQL, sqltest.MySQL},
	"sqlite":   {sqlstore.SQLite, sqltest.SQLite},
}

// dialectOf returns the dialect of d.
func dialectOf(d *sqltest.Database) sqlstore.Dialect { return dialects[d.Kind].Dialect }

// onEach runs a test on all dialects at the same time, each with a database that has the tables.
func onEach(t *testing.T, test func(*testing.T, *sqltest.Database)) {
	on(t, test, "postgres", "mysql", "sqlite")
}

// withServers does so on the dialects that have a server.
func withServers(t *testing.T, test func(*testing.T, *sqltest.Database)) {
	on(t, test, "postgres", "mysql")
}

func on(t *testing.T, test func(*testing.T, *sqltest.Database), kinds ...string) {
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			d := dialects[kind].database(t)
			migrate(t, d)
			test(t, d)
		})
	}
}

// onPostgres returns a database of PostgreSQL that has the tables, for a test that runs beside others.
func onPostgres(t *testing.T) *sqltest.Database {
	t.Helper()
	t.Parallel()
	d := sqltest.Postgres(t)
	migrate(t, d)
	return d
}

// by returns the entry for the kind of d, which has a server.
func by(d *sqltest.Database, postgres, mysql string) string {
	if d.Kind == "postgres" {
		return postgres
	}
	return mysql
}

// migrate makes the tables in a database that has none.
func migrate(t testing.TB, d *sqltest.Database) {
	t.Helper()
	must(t, sqlstore.Migrate(t.Context(), d.Open(t), dialectOf(d)))
}

// open makes a store that the test closes.
func open(t testing.TB, db *sql.DB, d sqlstore.Dialect, opts ...sqlstore.Option) *sqlstore.Store {
	t.Helper()
	s, err := sqlstore.New(t.Context(), db, d, append([]sqlstore.Option{silent}, opts...)...)
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// quick makes waiters look, and count as dead, sooner than by default.
var quick = []sqlstore.Option{sqlstore.WithWaiterLease(900 * time.Millisecond), sqlstore.WithPoll(50 * time.Millisecond)}

func exec(t testing.TB, db interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
}, statement string,
) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// lease has an engine acquire a key.
func lease(t testing.TB, eng *core.Engine, key string, opts ...core.CallOption) *core.Lease {
	t.Helper()
	l, err := eng.Acquire(t.Context(), key, opts...)
	must(t, err)
	return l
}

// engineOn returns an engine that logs nothing, because it tells of losses, and that is closed without a
// wait for its leases.
func engineOn(t *testing.T, s driver.Store, opts ...core.EngineOption) *core.Engine {
	t.Helper()
	eng, err := core.New(s, append(opts, core.WithLogger(slog.New(slog.DiscardHandler)))...)
	must(t, err)
	t.Cleanup(func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel() // it does not wait for leases
		_ = eng.Close(ended)
	})
	return eng
}
