package sqltest

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/internal/servertest"
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

func TestSettingsReachTheServer(t *testing.T) {
	var got string
	if err := sqltest.StartPostgres(t, "synchronous_commit=off").Database(t).Open(t).
		QueryRow("SHOW synchronous_commit").Scan(&got); got != "off" || err != nil {
		t.Errorf("PostgreSQL: %q, %v", got, err)
	}
	if err := sqltest.StartMySQL(t, "innodb-flush-log-at-trx-commit=2").Database(t).Open(t).
		QueryRow("SELECT @@innodb_flush_log_at_trx_commit").Scan(&got); got != "2" || err != nil {
		t.Errorf("MariaDB: %q, %v", got, err)
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

// A replica has what the server had when it was last in reach, and takes writes once it is promoted.
func TestReplica(t *testing.T) {
	t.Parallel()
	s := sqltest.StartPostgres(t)
	d := s.Database(t)
	run(t, d.Open(t), "CREATE TABLE thing (id int)")
	proxy := servertest.NewProxy(t, s.Addr())
	replica := s.Replica(t, proxy.Addr())
	db := d.OpenAt(t, replica.Addr())
	run(t, d.Open(t), "INSERT INTO thing VALUES (1)")
	replica.CaughtUp(t, s)
	proxy.Cut()
	run(t, d.Open(t), "INSERT INTO thing VALUES (2)")
	if _, err := db.Exec("INSERT INTO thing VALUES (3)"); err == nil {
		t.Error("a replica takes writes")
	}
	s.Kill()
	replica.Promote(t)
	run(t, db, "INSERT INTO thing VALUES (4)")
	if n, err := count(db); n != 2 || err != nil {
		t.Errorf("%d rows, %v; want the first and the last", n, err)
	}
}
