package dbtest

import (
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/drivertest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/sqltest"
	"github.com/keyturn/keyturn/internal/storetest"
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
	h, _ := storetest.Networked(drivertest.Harness{
		TTL: 800 * time.Millisecond, Late: late,
		Restart: func(t testing.TB) {
			d.Server.Restart(t)
			forget(t, d)
		},
		Pause:  func(testing.TB) { d.Server.Pause() },
		Resume: func(testing.TB) { d.Server.Resume() },
	}, d.Server.Addr(), func(t testing.TB, addr string) driver.Store {
		var opts []sqlstore.Option
		if messages {
			opts = append(opts, listen(t, d, addr))
		}
		return open(t, d.OpenAt(t, addr), dialectOf(d), opts...)
	})
	if testing.Short() {
		h.Elsewhere, h.Also = "TestContractOfSQLite", drivertest.ByKeystate
	}
	drivertest.Run(t, h)
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
