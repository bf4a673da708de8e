package dbtest

import (
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/sqltest"
	"github.com/keyturn/keyturn/store/sqlstore"
)

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
