package dbtest

import (
	"database/sql"
	"flag"
	"io"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/internal/sqltest"
	_ "github.com/keyturn/keyturn/proof/drivers"
	"github.com/keyturn/keyturn/store/sqlstore"
)

func TestMain(m *testing.M) {
	// Nearly all that these tests do is to wait for leases to end.
	flag.Parse()
	_ = flag.Set("test.parallel", "10")
	goleak.VerifyTestMain(sqltest.Main(m))
}

// silent is for stores whose server is broken on purpose, or has settings that are warned of.
var silent = sqlstore.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))

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

// migrate makes the tables in a database that has none.
func migrate(t testing.TB, d *sqltest.Database) {
	t.Helper()
	if err := sqlstore.Migrate(t.Context(), d.Open(t), dialectOf(d)); err != nil {
		t.Fatal(err)
	}
}

// open makes a store that the test closes.
func open(t testing.TB, db *sql.DB, d sqlstore.Dialect, opts ...sqlstore.Option) *sqlstore.Store {
	t.Helper()
	s, err := sqlstore.New(t.Context(), db, d, append([]sqlstore.Option{silent}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// quick makes waiters look, and count as dead, sooner than by default.
var quick = []sqlstore.Option{sqlstore.WithWaiterLease(900 * time.Millisecond), sqlstore.WithPoll(50 * time.Millisecond)}
