package dbtest

import (
	"testing"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/sqltest"
)

// TestNothingBelongsToASession: behind a bouncer with fewer connections than there are clients,
// every transaction may run in another session.
func TestNothingBelongsToASession(t *testing.T) {
	t.Parallel()
	d := sqltest.Postgres(t)
	migrate(t, d)
	addr := d.Bouncer(t, "default_pool_size = 2").Addr()
	stores := make([]driver.Store, 3)
	for i := range stores {
		stores[i] = open(t, d.OpenWith(t, addr, "default_query_exec_mode=exec"), dialectOf(d), quick...)
	}
	takeTurns(t, stores, 8, 5)
}
