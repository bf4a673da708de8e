package dbtest

import (
	"fmt"
	"testing"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/drivertest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/sqltest"
	"github.com/keyturn/keyturn/store/sqlstore"
)

// TestAwayAtStart: New asked the database for its tables, and failed without an answer.
func TestAwayAtStart(t *testing.T) {
	t.Parallel()
	for _, dialect := range []sqlstore.Dialect{sqlstore.Postgres, sqlstore.MySQL} {
		for name, away := range map[string]func(*servertest.Proxy){"refused": (*servertest.Proxy).Cut, "silent": (*servertest.Proxy).Blackhole} {
			t.Run(fmt.Sprint(dialect, " ", name), func(t *testing.T) {
				t.Parallel()
				database := sqltest.Postgres(t)
				if dialect == sqlstore.MySQL {
					database = sqltest.MySQL(t)
				}
				direct := database.Open(t)
				if err := sqlstore.Migrate(t.Context(), direct, dialect); err != nil {
					t.Fatal(err)
				}
				network := servertest.NewProxy(t, database.Server.Addr())
				db := database.OpenAt(t, network.Addr())
				away(network)
				drivertest.AwayAtStart(t, func() (driver.Store, error) { return sqlstore.New(t.Context(), db, dialect, silent) }, network.Heal)
			})
		}
	}
}
