package dbtest

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/lib/pq"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/sqltest"
	"github.com/keyturn/keyturn/pgx/pgwake"
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
	return p.OpenAt(t, p.Server.Addr()+","+p.replica.Addr(), "target_session_attrs=read-write")
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
	check(t, second.Token() > forgotten.Token(), "token %d after %d", second.Token(), forgotten.Token())
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

// A process's first lease is a few milliseconds old when the server fails over. The engine must know by then
// which server has granted it: otherwise two processes hold the key until the next renewal.
func TestAYoungLeaseNoticesAFailover(t *testing.T) {
	t.Parallel()
	servertest.Long(t)
	for name, c := range map[string]struct {
		driver string
		late   bool // the listener says only afterwards where it is connected
	}{"pgx": {"pgx", false}, "lib/pq": {"postgres", false}, "the listener connects late": {"pgx", true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t)
			dsn := p.DSNAt(p.Server.Addr()+","+p.replica.Addr()) + "&target_session_attrs=read-write"
			listener, err := pgwake.Dial(t.Context(), dsn)
			must(t, err)
			waker := &lateWaker{Listener: listener}
			waker.known.Store(!c.late)
			db, err := sql.Open(c.driver, p.words(t))
			must(t, err)
			t.Cleanup(func() { _ = db.Close() })
			eng := engineOn(t, open(t, db, sqlstore.Postgres, sqlstore.WithWaker(waker)), core.WithTTL(time.Minute))
			p.replica.CaughtUp(t, p.Server)
			p.network.Cut()
			l := lease(t, eng, "k")
			p.fail(t)
			waker.known.Store(true)
			select {
			case <-l.Done():
			case <-time.After(15 * time.Second): // the next renewal is after 20 s
				t.Error("the holder never learns that another server answers")
			}
		})
	}
}

// words is the DSN of both servers in the form that every driver reads.
func (p *pair) words(t *testing.T) string {
	t.Helper()
	u, err := url.Parse(p.DSN())
	must(t, err)
	var hosts, ports []string
	for _, addr := range []string{p.Server.Addr(), p.replica.Addr()} {
		host, port, _ := strings.Cut(addr, ":")
		hosts, ports = append(hosts, host), append(ports, port)
	}
	return fmt.Sprintf("host=%s port=%s user=%s dbname=%s sslmode=disable target_session_attrs=read-write",
		strings.Join(hosts, ","), strings.Join(ports, ","), u.User.Username(), strings.TrimPrefix(u.Path, "/"))
}

// lateWaker is a listener that is connecting at first.
type lateWaker struct {
	*pgwake.Listener
	known atomic.Bool
}

func (w *lateWaker) Server() (string, error) {
	if !w.known.Load() {
		return "", nil
	}
	return w.Listener.Server()
}
