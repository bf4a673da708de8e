package sqltest

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/servertest"
)

// The kinds of databases.
const (
	postgres = "postgres"
	mysql    = "mysql"
	sqlite   = "sqlite"
)

// account may do everything on a PostgreSQL, without a password. On MariaDB it is root.
const account = "keyturn"

// Server is a running database server. It keeps its data over a Restart.
type Server struct {
	*servertest.Server
	kind, driver string
	db           *sql.DB // one that every server of this kind has
}

// newServer starts a server, which ends with the test.
func newServer(t testing.TB, kind, driver string, program servertest.Program) *Server {
	t.Helper()
	s := &Server{Server: servertest.Start(t, program), kind: kind, driver: driver}
	s.db = (&Database{Kind: kind, Driver: driver, Server: s, name: kind}).Open(t)
	s.db.SetMaxOpenConns(1)
	return s
}

// admin returns the connection on which the server is set up.
func (s *Server) admin() *sql.DB {
	_ = s.db.Ping() // drops a connection that has ended with a server that was killed
	return s.db
}

// Database is a database that only one test uses.
type Database struct {
	Kind   string  // "postgres", "mysql" or "sqlite"
	Driver string  // for sql.Open: "pgx", "mysql" or "sqlite"
	Server *Server // nil for SQLite
	name   string  // for SQLite, the file's path
}

var databases atomic.Int64

// Database makes a new database on the server. It is dropped when the test ends.
func (s *Server) Database(t testing.TB) *Database {
	t.Helper()
	d := &Database{Kind: s.kind, Driver: s.driver, Server: s, name: fmt.Sprintf("test%d", databases.Add(1))}
	create := "CREATE DATABASE " + d.name
	if s.kind == postgres && s.version(t) >= 150000 {
		create += " STRATEGY FILE_COPY" // as before 15; otherwise all pages of the template go through the log
	}
	s.exec(t, create)
	t.Cleanup(func() {
		if s.PID() == 0 {
			return // a server that was killed has no databases
		}
		drop := "DROP DATABASE " + d.name
		if s.kind == postgres {
			drop += " WITH (FORCE)" // also if the test has left connections behind
		}
		s.exec(t, drop)
	})
	return d
}

// version is a PostgreSQL's.
func (s *Server) version(t testing.TB) (n int) {
	t.Helper()
	s.ask(t, "SELECT current_setting('server_version_num')::int", &n)
	return n
}

// exec runs one statement.
func (s *Server) exec(t testing.TB, statement string) {
	t.Helper()
	if _, err := s.admin().Exec(statement); err != nil {
		t.Fatalf("sqltest: %s: %v", statement, err)
	}
}

// SQLite returns a new database in a file. Each statement that finds the file locked waits for up
// to 5 s, and each transaction takes the lock for writing at its beginning: one that reads first
// could otherwise not wait for it. It does not wait for the disk, as the servers don't.
func SQLite(t testing.TB) *Database {
	t.Helper()
	return &Database{Kind: sqlite, Driver: "sqlite", name: filepath.Join(t.TempDir(), "test.db")}
}

// DSN returns the name of the database for sql.Open(d.Driver, ...).
func (d *Database) DSN() string {
	if d.Server == nil {
		return d.DSNAt("")
	}
	return d.DSNAt(d.Server.Addr())
}

// DSNAt returns the name of the database behind the host:port addr, which is a proxy or a bouncer.
func (d *Database) DSNAt(addr string) string {
	switch d.Kind {
	case postgres:
		return fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", account, addr, d.name)
	case mysql:
		return fmt.Sprintf("root@tcp(%s)/%s", addr, d.name)
	default:
		return "file:" + d.name + "?_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)&_pragma=synchronous(off)&_txlock=immediate"
	}
}

// Open returns a new pool of connections to the database, closed when the test ends.
func (d *Database) Open(t testing.TB) *sql.DB {
	t.Helper()
	return d.open(t, d.DSN())
}

// OpenAt does as [Database.Open], behind the host:port addr, with these parameters added to the DSN.
func (d *Database) OpenAt(t testing.TB, addr string, parameters ...string) *sql.DB {
	t.Helper()
	dsn := d.DSNAt(addr)
	for _, parameter := range parameters {
		separator := "?"
		if strings.Contains(dsn, separator) {
			separator = "&"
		}
		dsn += separator + parameter
	}
	return d.open(t, dsn)
}

func (d *Database) open(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(d.Driver, dsn)
	if err != nil {
		t.Fatalf("sqltest: %v", err)
	}
	// A new connection costs a PostgreSQL more than most tests do.
	db.SetMaxIdleConns(6)
	t.Cleanup(func() { _ = db.Close() }) // the test may have closed it already
	return db
}

// EndConnections ends all connections to the database except the one that does so, as a server that restarts, or
// an administrator. It returns when they have ended.
func (d *Database) EndConnections(t testing.TB) {
	t.Helper()
	db := d.Open(t)
	defer db.Close()
	db.SetMaxOpenConns(1)
	others := "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
	kill := "SELECT pg_terminate_backend(pid) " + others
	if d.Kind == mysql {
		others = "FROM information_schema.processlist WHERE db = database() AND id <> connection_id()"
		kill = "BEGIN NOT ATOMIC FOR other IN (SELECT id " + others + ") DO KILL other.id; END FOR; END"
	}
	for left := 1; left > 0; {
		_, _ = db.Exec(kill) // an older connection may have ended by itself, which is an error
		if err := db.QueryRow("SELECT count(*) " + others).Scan(&left); err != nil {
			t.Fatalf("sqltest: %v", err)
		}
	}
}

// Swept has a store take its first lock by use, and waits until the sweep that follows is over. Otherwise that comes
// beside what the test is about.
func (d *Database) Swept(t testing.TB, use func()) {
	t.Helper()
	db := d.Open(t)
	defer db.Close()
	if _, err := db.Exec("INSERT INTO keyturn_forced (lock_key, owner, token, until) VALUES ('a', 'o', 1, 1)"); err != nil {
		t.Fatalf("sqltest: %v", err)
	}
	use()
	for left := 1; left > 0; time.Sleep(5 * time.Millisecond) { // the last table of a sweep
		if err := db.QueryRow("SELECT count(*) FROM keyturn_forced").Scan(&left); err != nil {
			t.Fatalf("sqltest: %v", err)
		}
	}
}
