package dbtest

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/sqltest"
)

// openAs opens the database as a user who has these privileges on its tables.
func openAs(t *testing.T, d *sqltest.Database, user, privileges string) *sql.DB {
	t.Helper()
	admin := d.Open(t)
	statements := []string{"CREATE ROLE " + user + " LOGIN", "GRANT " + privileges + " ON ALL TABLES IN SCHEMA public TO " + user}
	account := "keyturn@"
	if d.Kind == "mysql" {
		statements, account = []string{"CREATE USER " + user + "@'%'", "GRANT " + privileges + " ON *.* TO " + user + "@'%'"}, "root@"
	}
	for _, s := range statements {
		exec(t, admin, s)
	}
	t.Cleanup(func() {
		if d.Kind == "postgres" {
			_, _ = admin.Exec("DROP OWNED BY " + user + "; DROP ROLE " + user)
		} else {
			_, _ = admin.Exec("DROP USER " + user + "@'%'")
		}
	})
	db, err := sql.Open(d.Driver, strings.Replace(d.DSN(), account, user+"@", 1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// refused fails unless err says that the store refused the user something on the table.
func refused(t *testing.T, err error, user, table string) {
	t.Helper()
	var out *driver.UnavailableError
	if !errors.As(err, &out) || !out.Refused || !strings.Contains(err.Error(), user) || !strings.Contains(err.Error(), table) {
		t.Errorf("%v", err)
	}
}

// PostgreSQL's error names the table that the user may not write, and not the user.
func TestAMissingPermissionNamesUserAndTable(t *testing.T) {
	withServers(t, func(t *testing.T, d *sqltest.Database) {
		s := open(t, openAs(t, d, "looker", "SELECT"), dialectOf(d))
		for _, req := range []driver.Request{request("k", time.Minute), request("a", time.Minute, driver.Exclusive("b"))} {
			_, err := s.Acquire(t.Context(), req)
			refused(t, err, "looker", "keyturn_lock")
		}
	})
}

// Only an exclusive lock that nobody waits for needs no DELETE, as docs/operations-sql.md says.
func TestWithoutDELETE(t *testing.T) {
	withServers(t, func(t *testing.T, d *sqltest.Database) {
		s := open(t, openAs(t, d, "keeper", "SELECT, INSERT, UPDATE"), dialectOf(d))
		use(t, s, "k")
		shared := request("s", time.Minute)
		shared.Claims = []driver.Claim{driver.Shared("s")}
		g := take(t, s, shared)
		refused(t, s.Release(t.Context(), g), "keeper", "keyturn_member")

		g = take(t, s, request("q", time.Minute))
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		waits := request("q", time.Minute)
		waits.Wait = true
		_, err := s.Acquire(ctx, waits)
		refused(t, err, "keeper", "keyturn_member")
		refused(t, s.Release(t.Context(), g), "keeper", "keyturn_member") // it would take the waiter out of the queue
		refused(t, s.Sweep(t.Context(), 0), "keeper", "keyturn_")
	})
}
