package dbtest

import (
	"bytes"
	"database/sql"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/sqltest"
	"github.com/keyturn/keyturn/internal/storetest"
	"github.com/keyturn/keyturn/store/sqlstore"
	"github.com/keyturn/keyturn/store/storeurl"
)

// TestNewMakesNoTables, and says what is missing. Migrate makes them, and may be called again. So does Schema, for
// those who run it by their own scripts.
func TestNewMakesNoTables(t *testing.T) {
	t.Parallel()
	for name, dialect := range dialects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, app := dialect.database(t).Open(t), sqlstore.WithPrefix("app_")
			missing := func(what string, opts ...sqlstore.Option) {
				t.Helper()
				if _, err := sqlstore.New(t.Context(), db, dialect.Dialect, append(opts, silent)...); !errors.Is(err, sqlstore.ErrSchema) {
					t.Errorf("New without %s: %v", what, err)
				}
			}
			for range 2 {
				missing("tables")
			}
			for range 2 {
				must(t, sqlstore.Migrate(t.Context(), db, dialect.Dialect, app))
			}
			missing("the tables of its prefix")
			take(t, open(t, db, dialect.Dialect, app), request("k", 1e9))
			exec(t, db, "ALTER TABLE app_member DROP COLUMN inbox")
			missing("a column", app)
			schema, err := sqlstore.Schema(dialect.Dialect)
			must(t, err)
			for statement := range strings.SplitSeq(strings.TrimSuffix(schema, ";\n"), ";\n") {
				exec(t, db, statement)
			}
			open(t, db, dialect.Dialect)
		})
	}
}

// TestWarnsOfSettings with which a crash of the server forgets leases, and of no others. Examine says the
// same.
func TestWarnsOfSettings(t *testing.T) {
	t.Parallel()
	servertest.Long(t)
	postgres, mysql := sqltest.StartPostgres(t, "fsync=on").Database(t), sqltest.StartMySQL(t, "sync-binlog=1").Database(t)
	for _, c := range []struct {
		d              *sqltest.Database
		setting, value string
		warns          bool
	}{
		{postgres, "synchronous_commit", "off", true},
		{postgres, "synchronous_commit", "on", false},
		{mysql, "innodb_flush_log_at_trx_commit", "2", true},
		{mysql, "innodb_flush_log_at_trx_commit", "1", false},
	} {
		migrate(t, c.d)
		parameter := c.setting + "=" + c.value
		if c.d == mysql {
			exec(t, mysql.Open(t), "SET GLOBAL "+parameter)
			parameter = "timeout=5s"
		}
		var log bytes.Buffer
		s := open(t, c.d.OpenAt(t, c.d.Server.Addr(), parameter), dialectOf(c.d), sqlstore.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		if strings.Contains(log.String(), c.setting) != c.warns || !c.warns && log.Len() > 0 {
			t.Errorf("%s=%s: %q", c.setting, c.value, log.String())
		}
		if c.warns {
			storetest.AreRisks(t, s, c.setting)
		} else {
			storetest.AreRisks(t, s)
		}
	}
}

// TestAwayAtStart: New asked the database for its tables, and failed without an answer.
func TestAwayAtStart(t *testing.T) {
	withServers(t, func(t *testing.T, d *sqltest.Database) {
		storetest.AwayAtStart(t, d.Server.Addr(), func(addr string) (driver.Store, error) {
			return sqlstore.New(t.Context(), d.OpenAt(t, addr), dialectOf(d), silent)
		})
	})
}

// A missing database and a refused account were called missing tables.
func TestNoDatabaseIsNoMissingTable(t *testing.T) {
	withServers(t, func(t *testing.T, d *sqltest.Database) {
		dsn := func(old, replacement string) *sql.DB {
			db, err := sql.Open(d.Driver, strings.Replace(d.DSN(), old, replacement, 1))
			must(t, err)
			t.Cleanup(func() { _ = db.Close() })
			return db
		}
		none := dsn("/test", "/nosuch")
		if _, err := sqlstore.New(t.Context(), none, dialectOf(d), silent); !errors.Is(err, sqlstore.ErrNoDatabase) || errors.Is(err, sqlstore.ErrSchema) {
			t.Errorf("New without a database: %v", err)
		}
		if err := sqlstore.Migrate(t.Context(), none, dialectOf(d)); !errors.Is(err, sqlstore.ErrNoDatabase) {
			t.Errorf("Migrate without a database: %v", err)
		}
		stranger := dsn(by(d, "keyturn@", "root@"), "nobody:wrong@")
		if _, err := sqlstore.New(t.Context(), stranger, dialectOf(d), silent); !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, sqlstore.ErrSchema) {
			t.Errorf("New with an account that does not exist: %v", err)
		}
	})
}

// Examine shows the settings of a SQLite connection, and what is wrong with them. Those of servers are in
// TestWarnsOfSettings, too.
func TestExamineSQLite(t *testing.T) {
	t.Parallel()
	for params, want := range map[string][]string{"": nil, "?synchronous=off": {"synchronous"}} {
		file := "sqlite:" + t.TempDir() + "/a.db" + params
		u, err := storeurl.Parse(file)
		must(t, err)
		must(t, u.Prepare(t.Context()))
		storetest.AreRisks(t, opened(t, file), want...)
	}
	// A data source name of a program's own may say nothing of a busy timeout and of WAL.
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "a.db"))
	must(t, err)
	defer db.Close()
	must(t, sqlstore.Migrate(t.Context(), db, sqlstore.SQLite))
	storetest.AreRisks(t, open(t, db, sqlstore.SQLite), "journal_mode", "busy_timeout")
}

// A replica for which no COMMIT waits is found, and then a pool that passes no warnings on; and a server that
// leaves its data to the system's memory.
func TestExamineReplica(t *testing.T) {
	servertest.Long(t)
	alone := onPostgres(t)
	p := newPair(t)          // with fsync=off
	t.Cleanup(p.Server.Kill) // before its replica ends: DROP DATABASE would wait for that one
	s := open(t, p.Open(t), sqlstore.Postgres)
	take(t, s, request("k", time.Minute))
	p.replica.CaughtUp(t, p.Server) // so it is connected
	storetest.AreRisks(t, s, "fsync", "synchronous_standby_names")
	p.Server.Synchronous(t)
	storetest.AreRisks(t, open(t, p.Open(t), sqlstore.Postgres), "warnings", "fsync")
	storetest.AreRisks(t, open(t, alone.Open(t), sqlstore.Postgres), "fsync")
}

// Examine said that all is right, although the account could not record an execution, or take a waiter out of the
// queue: the effect of each execution came, and then came again.
func TestExamineAccount(t *testing.T) {
	withServers(t, func(t *testing.T, d *sqltest.Database) {
		db, grant := openAs(t, d, "clerk")
		grant("SELECT, INSERT, UPDATE", "lock", "member", "forced", "version")
		grant("SELECT", "record")
		grant("DELETE", "lock", "forced", "version")
		s := open(t, db, dialectOf(d))
		risk := func() string { return s.Describe().Examine(t.Context())[0].Risk }
		check(t, strings.Contains(risk(), "may not DELETE on keyturn_member; INSERT, UPDATE, DELETE on keyturn_record"), "%s", risk())
		grant("INSERT, UPDATE, DELETE", "record", "member")
		check(t, risk() == "", "with all permissions: %s", risk())
	})
}
