package dbtest

import (
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/sqltest"
)

// PostgreSQL's error names the table that the user may not write, and not the user.
func TestAMissingPermissionNamesUserAndTable(t *testing.T) {
	t.Parallel()
	withServers(t, func(t *testing.T, d *sqltest.Database) {
		migrate(t, d)
		admin := d.Open(t)
		statements := []string{"CREATE ROLE looker LOGIN", "GRANT SELECT ON ALL TABLES IN SCHEMA public TO looker"}
		account := "keyturn@"
		if d.Kind == "mysql" {
			statements, account = []string{"CREATE USER looker@'%'", "GRANT SELECT ON *.* TO looker@'%'"}, "root@"
		}
		for _, s := range statements {
			if _, err := admin.Exec(s); err != nil {
				t.Fatal(err)
			}
		}
		t.Cleanup(func() {
			if d.Kind == "postgres" {
				_, _ = admin.Exec("DROP OWNED BY looker; DROP ROLE looker")
			} else {
				_, _ = admin.Exec("DROP USER looker@'%'")
			}
		})
		db, err := sql.Open(d.Driver, strings.Replace(d.DSN(), account, "looker@", 1))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		s := open(t, db, dialectOf(d))
		set := request("a", time.Minute)
		set.Claims = append(set.Claims, driver.Exclusive("b"))
		for _, req := range []driver.Request{request("k", time.Minute), set} {
			_, err := s.Acquire(t.Context(), req)
			var out *driver.UnavailableError
			if !errors.As(err, &out) || !out.Refused || !strings.Contains(err.Error(), "looker") || !strings.Contains(err.Error(), "keyturn_lock") {
				t.Errorf("%v", err)
			}
		}
	})
}
