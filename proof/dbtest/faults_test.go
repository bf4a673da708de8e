package dbtest

import (
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/sqltest"
	"github.com/keyturn/keyturn/store/sqlstore"
)

// TestKilledIdleConnections: a server or a firewall ends all connections of the pool. Nobody
// notices.
func TestKilledIdleConnections(t *testing.T) {
	withServers(t, func(t *testing.T, d *sqltest.Database) {
		db := d.Open(t)
		db.SetMaxIdleConns(10)
		s := open(t, db, dialectOf(d))
		kill := func() {
			var conns []*sql.Conn // so that the pool has several idle connections
			for range 5 {
				c, err := db.Conn(t.Context())
				must(t, err)
				conns = append(conns, c)
			}
			for _, c := range conns {
				_ = c.Close()
			}
			d.EndConnections(t)
		}
		kill()
		g := take(t, s, request("k", time.Minute))
		kill()
		must(t, s.Renew(t.Context(), []driver.Grant{g})[0])
		kill()
		must(t, s.Release(t.Context(), g))
	})
}

// TestForcedDeadlock: the database chooses a transaction of the store as the victim of a deadlock
// with somebody who locks the rows in the other order. The store repeats it.
func TestForcedDeadlock(t *testing.T) {
	withServers(t, func(t *testing.T, d *sqltest.Database) {
		s := open(t, d.Open(t), dialectOf(d))
		use(t, s, "a", "b")
		db := d.Open(t)
		exec(t, db, "CREATE TABLE ballast (id int)")
		conn, err := db.Conn(t.Context())
		must(t, err)
		defer conn.Close()
		// PostgreSQL ends the one that looks first; MySQL the one that has changed less.
		if d.Kind == "postgres" {
			exec(t, conn, "SET deadlock_timeout = '1min'")
		}
		exec(t, conn, "BEGIN")
		exec(t, conn, "INSERT INTO ballast VALUES "+strings.TrimSuffix(strings.Repeat("(1),", 1000), ","))
		exec(t, conn, "UPDATE keyturn_lock SET through = 0 WHERE lock_key = 'b'")
		done := checktest.Async(func() error {
			return checktest.ErrorOf(s.Acquire(t.Context(), request("a", time.Minute, driver.Exclusive("b"))))
		})
		awaitBlocked(t, d, 1)
		exec(t, conn, "UPDATE keyturn_lock SET through = 0 WHERE lock_key = 'a'") // waits for the store, and the store for us
		exec(t, conn, "COMMIT")
		must(t, <-done)
	})
}

// awaitBlocked waits until at least so many transactions wait for locks of rows.
func awaitBlocked(t *testing.T, d *sqltest.Database, least int) {
	t.Helper()
	db := d.Open(t)
	question := by(d, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()",
		"SELECT count(*) FROM information_schema.innodb_lock_waits")
	// MariaDB looks anew only if nobody has asked for 100 ms.
	checktest.Eventually(t, "so many wait", func() bool {
		time.Sleep(150 * time.Millisecond)
		var n int
		must(t, db.QueryRow(question).Scan(&n))
		return n >= least
	})
}

// TestLockTimeout: the session gives up waiting for a row. On MySQL that undoes the statement and
// leaves the transaction open; the store repeats all of it.
func TestLockTimeout(t *testing.T) {
	withServers(t, func(t *testing.T, d *sqltest.Database) {
		s := open(t, d.OpenAt(t, d.Server.Addr(), by(d, "lock_timeout=100", "innodb_lock_wait_timeout=1")), dialectOf(d))
		use(t, s, "k")
		timer := time.AfterFunc(1500*time.Millisecond, lockRows(t, d, "k"))
		defer timer.Stop()
		take(t, s, request("k", time.Minute))
	})
}

// TestNoTransactionStaysOpen after an answer that changes nothing: the rows would stay locked.
func TestNoTransactionStaysOpen(t *testing.T) {
	withServers(t, func(t *testing.T, d *sqltest.Database) {
		s := open(t, d.Open(t), dialectOf(d))
		lost := take(t, s, request("k", time.Minute, driver.Exclusive("l")))
		lost.Token++
		for range 5 { // as many as there may be connections
			if err := s.Downgrade(t.Context(), lost); !errors.Is(err, driver.ErrLeaseLost) {
				t.Fatalf("Downgrade with another token: %v", err)
			}
		}
		var open int
		question := by(d, "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%' AND datname = current_database()",
			"SELECT count(*) FROM information_schema.innodb_trx x JOIN information_schema.processlist p ON p.id = x.trx_mysql_thread_id WHERE p.db = database()")
		if err := d.Open(t).QueryRow(question).Scan(&open); err != nil || open > 0 {
			t.Errorf("%d transactions are open, %v", open, err)
		}
	})
}

// TestReadOnlyConnection: a connection to a server that has become read-only is closed. The next one may lead elsewhere.
func TestReadOnlyConnection(t *testing.T) {
	withServers(t, func(t *testing.T, d *sqltest.Database) {
		db := d.Open(t)
		db.SetMaxOpenConns(1)
		s := open(t, db, dialectOf(d))
		demote := by(d, "SET default_transaction_read_only = on", "SET SESSION TRANSACTION READ ONLY")
		exec(t, db, demote)
		g := take(t, s, request("k", time.Minute))
		exec(t, db, demote)
		must(t, s.Release(t.Context(), g))

		// If every connection leads there, the error says so.
		all := d.OpenAt(t, d.Server.Addr(), by(d, "default_transaction_read_only=on", "tx_read_only=1"))
		s = open(t, all, dialectOf(d))
		_, unwritten := s.AdvanceVersion(t.Context(), "k", 7, time.Minute)
		for call, err := range map[string]error{"Acquire": checktest.ErrorOf(s.Acquire(t.Context(), request("k", time.Minute))), "AdvanceVersion": unwritten} {
			var out *driver.UnavailableError
			checktest.That(t, errors.Is(err, sqlstore.ErrReadOnly) && errors.As(err, &out) && out.Refused, "%s on a server that is read-only: %v", call, err)
		}
	})
}
