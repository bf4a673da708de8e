package dbtest

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

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
				if err := sqlstore.Migrate(t.Context(), db, dialect.Dialect, sqlstore.WithPrefix("app_")); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := sqlstore.New(t.Context(), db, dialect.Dialect, silent); !errors.Is(err, sqlstore.ErrSchema) {
				t.Errorf("New with the tables of another prefix: %v", err)
			}
			s := open(t, db, dialect.Dialect, sqlstore.WithPrefix("app_"))
			if _, err := s.Acquire(t.Context(), request("k", 1e9)); err != nil {
				t.Error(err)
			}
			if _, err := db.Exec("ALTER TABLE app_member DROP COLUMN inbox"); err != nil {
				t.Fatal(err)
			}
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
			if err != nil {
				t.Fatal(err)
			}
			for statement := range strings.SplitSeq(strings.TrimSuffix(schema, ";\n"), ";\n") {
				if _, err := db.Exec(statement); err != nil {
					t.Fatalf("%s: %v", statement, err)
				}
			}
			open(t, db, dialect.Dialect)
		})
	}
}

// TestWarnsOfSettings with which a crash of the server forgets leases, and of no others. Examine says the
// same.
func TestWarnsOfSettings(t *testing.T) {
	t.Parallel()
	for setting, start := range map[string]func(testing.TB, ...string) *sqltest.Server{
		"synchronous_commit":             sqltest.StartPostgres,
		"innodb_flush_log_at_trx_commit": sqltest.StartMySQL,
	} {
		for value, warns := range map[string]bool{"off": true, "on": false} {
			if setting != "synchronous_commit" {
				value = map[string]string{"off": "2", "on": "1"}[value]
			}
			d := start(t, setting+"="+value, map[bool]string{true: "fsync=on", false: "sync-binlog=1"}[setting == "synchronous_commit"]).Database(t)
			migrate(t, d)
			var log bytes.Buffer
			s := open(t, d.Open(t), dialectOf(d), sqlstore.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
			if strings.Contains(log.String(), setting) != warns || !warns && log.Len() > 0 {
				t.Errorf("%s=%s: %q", setting, value, log.String())
			}
			for _, f := range s.Describe().Examine(t.Context()) {
				if f.Found == "" || (f.Risk != "") != (warns && f.About == setting) || (f.Risk == "") != (f.Advice == "") {
					t.Errorf("%s=%s: %+v", setting, value, f)
				}
			}
		}
	}
}
