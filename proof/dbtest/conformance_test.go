package dbtest

import (
	"database/sql"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/drivertest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/sqltest"
	"github.com/keyturn/keyturn/pgx/pgwake"
	"github.com/keyturn/keyturn/store/sqlstore"
)

// late is how much later than due something may happen: several servers run at the same time.
const late = 2 * time.Second

// TestContractOfPostgres runs the suite that every store has to pass. Every store is a process
// with a network of its own.
func TestContractOfPostgres(t *testing.T) {
	t.Parallel()
	servertest.Long(t) // TestContractWithMessages runs the same checks, and TestContractOfMySQL has no messages either
	contract(t, sqltest.StartPostgres(t).Database(t), false)
}

// TestContractWithMessages runs it with messages: here leases may linger, too.
func TestContractWithMessages(t *testing.T) {
	t.Parallel()
	contract(t, sqltest.StartPostgres(t).Database(t), true)
}

func TestContractOfMySQL(t *testing.T) {
	t.Parallel()
	contract(t, sqltest.StartMySQL(t).Database(t), false)
}

// contract runs it on a database whose server belongs to this test alone.
func contract(t *testing.T, d *sqltest.Database, messages bool) {
	migrate(t, d)
	var networks sync.Map // driver.Store -> *network
	of := func(s driver.Store) *network {
		n, _ := networks.Load(s)
		return n.(*network)
	}
	idle := pool{idle: make(chan *network, 1000)}
	h := drivertest.Harness{
		TTL: 800 * time.Millisecond, Late: late,
		New: func(check testing.TB) driver.Store {
			n := idle.take(t, d, messages)
			check.Cleanup(func() { idle.put(n) })
			s := open(check, n.db, dialectOf(d), n.opts...)
			networks.Store(s, n)
			return s
		},
		Restart: func(t testing.TB) {
			idle.age.Add(1)
			d.Server.Restart(t)
			forget(t, d)
		},
		Pause:  func(testing.TB) { d.Server.Pause() },
		Resume: func(testing.TB) { d.Server.Resume() },
		Cut: func(_ testing.TB, s driver.Store) {
			of(s).spent.Store(true)
			of(s).Cut()
		},
		Heal: func(_ testing.TB, s driver.Store) { of(s).Heal() },
	}
	if testing.Short() {
		h.Elsewhere, h.Also = "TestContractOfSQLite", drivertest.ByKeystate
	}
	drivertest.Run(t, h)
}

// network is a process's way to the database, with its connections.
type network struct {
	*servertest.Proxy
	db    *sql.DB
	opts  []sqlstore.Option // its listener
	age   int64
	spent atomic.Bool // its connections were cut
}

// kept is a listener that does not end with its store.
type kept struct{ *pgwake.Listener }

func (kept) Close() error { return nil }

// pool keeps networks for the next check: to open a connection costs a PostgreSQL more than most checks do.
type pool struct {
	idle chan *network
	age  atomic.Int64 // how often the server has ended all connections
}

func (p *pool) take(t testing.TB, d *sqltest.Database, messages bool) *network {
	for len(p.idle) > 0 {
		select {
		case n := <-p.idle:
			if n.age == p.age.Load() {
				return n
			}
		default:
		}
	}
	n := &network{Proxy: servertest.NewProxy(t, d.Server.Addr()), age: p.age.Load()}
	n.db = d.OpenAt(t, n.Addr())
	if messages {
		n.opts = append(n.opts, sqlstore.WithWaker(kept{dial(t, d, n.Addr())}))
	}
	return n
}

func (p *pool) put(n *network) {
	if !n.spent.Load() {
		p.idle <- n
	}
}

// tables are those of a store, without their prefix.
var tables = []string{"lock", "member", "record", "forced", "version"}

// forget deletes all data of the store.
func forget(t testing.TB, d *sqltest.Database) {
	t.Helper()
	db := d.Open(t)
	for _, table := range tables {
		exec(t, db, "DELETE FROM keyturn_"+table)
	}
}

// TestContractOfSQLite: each store is a process with a pool of its own on the same file. There is
// no server, and no network.
func TestContractOfSQLite(t *testing.T) {
	t.Parallel()
	d := sqltest.SQLite(t)
	migrate(t, d)
	drivertest.Run(t, drivertest.Harness{
		TTL: 800 * time.Millisecond, Late: late,
		New: func(t testing.TB) driver.Store { return open(t, d.Open(t), dialectOf(d)) },
		Restart: func(t testing.TB) {
			forget(t, d)
			// After a loss of data the clock alone makes tokens rise, and SQLite's counts milliseconds.
			time.Sleep(2 * time.Millisecond)
		},
	})
}
