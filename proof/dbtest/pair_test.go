package dbtest

import (
	"testing"

	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/sqltest"
)

// pair is a PostgreSQL and a replica that follows it through a network that may fail. Clients know
// both, and use the one that takes writes.
type pair struct {
	*sqltest.Database
	replica *sqltest.Server
	network *servertest.Proxy
}

func newPair(t *testing.T) *pair {
	t.Helper()
	primary := sqltest.StartPostgres(t)
	d := primary.Database(t)
	migrate(t, d)
	p := &pair{Database: d, network: servertest.NewProxy(t, primary.Addr())}
	p.replica = primary.Replica(t, p.network.Addr())
	return p
}

// fail ends the primary, and makes a primary of the replica.
func (p *pair) fail(t *testing.T) {
	t.Helper()
	p.Server.Kill()
	p.replica.Promote(t)
}
