package sqltest

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/internal/sqltest"
	_ "github.com/keyturn/keyturn/proof/drivers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(sqltest.Main(m)) }

// kinds are the ways to get a database.
var kinds = map[string]func(testing.TB) *sqltest.Database{"postgres": sqltest.Postgres, "mysql": sqltest.MySQL, "sqlite": sqltest.SQLite}

func run(t *testing.T, db *sql.DB, statement string) {
	t.Helper()
	if _, err := db.Exec(statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func count(db *sql.DB) (n int, err error) {
	err = db.QueryRow("SELECT count(*) FROM thing").Scan(&n)
	return n, err
}

func TestEachTestHasADatabaseOfItsOwn(t *testing.T) {
	for name, database := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one, two := database(t), database(t)
			for _, d := range []*sqltest.Database{one, two} {
				run(t, d.Open(t), "CREATE TABLE thing (id int)")
			}
			run(t, one.Open(t), "INSERT INTO thing VALUES (1)")
			for d, want := range map[*sqltest.Database]int{one: 1, two: 0} {
				if n, err := count(d.Open(t)); n != want || err != nil {
					t.Errorf("%d rows, %v; want %d", n, err, want)
				}
			}
			if one.Server != two.Server {
				t.Error("each database has a server of its own")
			}
		})
	}
}

func TestServersKeepDataWhenKilled(t *testing.T) {
	for name, start := range map[string]func(testing.TB, ...string) *sqltest.Server{"postgres": sqltest.StartPostgres, "mysql": sqltest.StartMySQL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			d := s.Database(t)
			run(t, d.Open(t), "CREATE TABLE thing (id int)")
			run(t, d.Open(t), "INSERT INTO thing VALUES (1)")
			db := d.Open(t)
			if err := db.Ping(); err != nil {
				t.Fatal(err)
			}

			s.Pause()
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if _, err := db.ExecContext(ctx, "INSERT INTO thing VALUES (2)"); err == nil {
				t.Error("a paused server answers")
			}
			s.Kill()
			if err := d.Open(t).Ping(); err == nil {
				t.Error("a killed server answers")
			}
			s.Restart(t)
			if n, err := count(d.Open(t)); n != 1 || err != nil {
				t.Errorf("%d rows, %v", n, err)
			}
		})
	}
}

// With one connection to the server, two clients can only take turns if each gives it back after
// its transaction.
func TestBouncerSharesConnectionsByTransaction(t *testing.T) {
	d := sqltest.Postgres(t)
	addr := d.Bouncer(t, "default_pool_size = 1").Addr()
	run(t, d.Open(t), "CREATE TABLE thing (id int)")
	one, two := d.OpenAt(t, addr), d.OpenAt(t, addr)
	for _, db := range []*sql.DB{one, two} {
		conn, err := db.Conn(t.Context()) // stays open
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.ExecContext(t.Context(), "INSERT INTO thing VALUES (1)"); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := count(d.Open(t)); n != 2 || err != nil {
		t.Errorf("%d rows, %v", n, err)
	}
}
