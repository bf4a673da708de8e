package dbtest

import (
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/sqltest"
	"github.com/keyturn/keyturn/store/sqlstore"
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

func (p *pair) open(t *testing.T) *sql.DB {
	t.Helper()
	return p.OpenWith(t, p.Server.Addr()+","+p.replica.Addr(), "target_session_attrs=read-write")
}

// fail ends the primary, and makes a primary of the replica.
func (p *pair) fail(t *testing.T) {
	t.Helper()
	p.Server.Kill()
	p.replica.Promote(t)
}

func (p *pair) engine(t *testing.T, opts ...core.EngineOption) *core.Engine {
	t.Helper()
	return engineOn(t, open(t, p.open(t), sqlstore.Postgres), opts...)
}

// TestAsynchronousFailover: the replica lacks the last grant, so two processes hold the key until the
// first one asks the new primary. Its token is the smaller one.
func TestAsynchronousFailover(t *testing.T) {
	t.Parallel()
	servertest.Long(t)
	p := newPair(t)
	a, b := p.engine(t, core.WithTTL(12*time.Second)), p.engine(t)
	kept := lease(t, a, "kept")
	p.replica.CaughtUp(t, p.Server)
	p.network.Cut()
	forgotten := lease(t, a, "forgotten")
	p.fail(t)
	second, err := b.Acquire(t.Context(), "forgotten")
	if err != nil {
		t.Fatalf("the new primary knows a lease that its replica never got: %v", err)
	}
	if second.Token() <= forgotten.Token() {
		t.Errorf("token %d after %d", second.Token(), forgotten.Token())
	}
	select {
	case <-forgotten.Done():
	case <-time.After(time.Minute):
		t.Fatal("the first holder never learns of it")
	}
	var lost *core.LeaseLostError
	if err := forgotten.Err(); !errors.As(err, &lost) || lost.Reason != driver.LossTaken {
		t.Errorf("the first holder's loss: %v", err)
	}
	if err := kept.Release(t.Context()); err != nil {
		t.Errorf("a lease that the replica had: %v", err)
	}
}
