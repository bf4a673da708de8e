package dbtest

import (
	"testing"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/drivertest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/sqltest"
	"github.com/keyturn/keyturn/store/sqlstore"
)

// TestAwayAtStart: New asked the database for its tables, and failed without an answer.
func TestAwayAtStart(t *testing.T) {
	withServers(t, func(t *testing.T, d *sqltest.Database) {
		for name, away := range map[string]func(*servertest.Proxy){"refused": (*servertest.Proxy).Cut, "silent": (*servertest.Proxy).Blackhole} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				network := servertest.NewProxy(t, d.Server.Addr())
				db := d.OpenAt(t, network.Addr())
				away(network)
				drivertest.AwayAtStart(t, func() (driver.Store, error) { return sqlstore.New(t.Context(), db, dialectOf(d), silent) }, network.Heal)
			})
		}
	})
}
