package dbtest

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/sqltest"
	"github.com/keyturn/keyturn/store/sqlstore"
)

// TestNewMakesNoTables, and says what is missing. Migrate makes them, and may be called again.
func TestNewMakesNoTables(t *testing.T) {
	for name, dialect := range dialects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := dialect.database(t)
			db := d.Open(t)
			for range 2 {
				if _, err := sqlstore.New(t.Context(), db, dialect.Dialect, silent); !errors.Is(err, sqlstore.ErrSchema) {
					t.Fatalf("New without tables: %v", err)
				}
			}
			for range 2 {
				must(t, sqlstore.Migrate(t.Context(), db, dialect.Dialect, sqlstore.WithPrefix("app_")))
			}
			if _, err := sqlstore.New(t.Context(), db, dialect.Dialect, silent); !errors.Is(err, sqlstore.ErrSchema) {
				t.Errorf("New with the tables of another prefix: %v", err)
			}
			s := open(t, db, dialect.Dialect, sqlstore.WithPrefix("app_"))
			take(t, s, request("k", 1e9))
			exec(t, db, "ALTER TABLE app_member DROP COLUMN inbox")
			if _, err := sqlstore.New(t.Context(), db, dialect.Dialect, silent, sqlstore.WithPrefix("app_")); !errors.Is(err, sqlstore.ErrSchema) {
				t.Errorf("New without a column: %v", err)
			}
		})
	}
}

// TestSchemaIsWhatMigrateDoes, for those who run it by their own scripts.
func TestSchemaIsWhatMigrateDoes(t *testing.T) {
	for name, dialect := range dialects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := dialect.database(t).Open(t)
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
		s := open(t, c.d.OpenWith(t, c.d.Server.Addr(), parameter), dialectOf(c.d), sqlstore.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		if strings.Contains(log.String(), c.setting) != c.warns || !c.warns && log.Len() > 0 {
			t.Errorf("%s=%s: %q", c.setting, c.value, log.String())
		}
		if c.warns {
			finds(t, s, c.setting)
		} else {
			finds(t, s)
		}
	}
}
