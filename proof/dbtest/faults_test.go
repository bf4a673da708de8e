package dbtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/sqltest"
	"github.com/keyturn/keyturn/store/sqlstore"
)

// withServers runs a test on the dialects that have a server.
func withServers(t *testing.T, test func(*testing.T, *sqltest.Database)) {
	for _, name := range []string{"postgres", "mysql"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := dialects[name].database(t)
			migrate(t, d)
			test(t, d)
		})
	}
}

// by returns the entry for the kind of d.
func by(d *sqltest.Database, postgres, mysql string) string {
	if d.Kind == "postgres" {
		return postgres
	}
	return mysql
}

func exec(t testing.TB, db interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
}, statement string,
) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// TestKilledIdleConnections: a server or a firewall ends all connections of the pool. Nobody
// notices.
func TestKilledIdleConnections(t *testing.T) {
	withServers(t, func(t *testing.T, d *sqltest.Database) {
		db := d.Open(t)
		db.SetMaxIdleConns(10)
		s := open(t, db, dialectOf(d))
		admin := d.Open(t)
		kill := func() {
			var conns []*sql.Conn // so that the pool has several idle connections
			for range 5 {
				c, err := db.Conn(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				conns = append(conns, c)
			}
			for _, c := range conns {
				// One that was killed before may still be in the pool.
				var id int
				if c.QueryRowContext(t.Context(), by(d, "SELECT pg_backend_pid()", "SELECT connection_id()")).Scan(&id) == nil {
					exec(t, admin, fmt.Sprintf(by(d, "SELECT pg_terminate_backend(%d)", "KILL %d"), id))
				}
			}
			for _, c := range conns {
				_ = c.Close()
			}
		}
		kill()
		req := request("k", time.Minute)
		g, err := s.Acquire(t.Context(), req)
		if err != nil {
			t.Fatalf("Acquire: %v", err)
		}
		kill()
		if err := s.Renew(t.Context(), []driver.Grant{g})[0]; err != nil {
			t.Errorf("Renew: %v", err)
		}
		kill()
		if err := s.Release(t.Context(), g); err != nil {
			t.Errorf("Release: %v", err)
		}
	})
}

// TestForcedDeadlock: the database chooses a transaction of the store as the victim of a deadlock
// with somebody who locks the rows in the other order. The store repeats it.
func TestForcedDeadlock(t *testing.T) {
	withServers(t, func(t *testing.T, d *sqltest.Database) {
		s := open(t, d.Open(t), dialectOf(d))
		req := request("a", time.Minute)
		req.Claims = append(req.Claims, driver.Exclusive("b"))
		g, err := s.Acquire(t.Context(), req) // makes the rows
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Release(t.Context(), g); err != nil {
			t.Fatal(err)
		}
		db := d.Open(t)
		exec(t, db, "CREATE TABLE ballast (id int)")
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		// PostgreSQL ends the one that looks first; MySQL the one that has changed less.
		if d.Kind == "postgres" {
			exec(t, conn, "SET deadlock_timeout = '1min'")
		}
		exec(t, conn, "BEGIN")
		exec(t, conn, "INSERT INTO ballast VALUES "+strings.TrimSuffix(strings.Repeat("(1),", 1000), ","))
		exec(t, conn, "UPDATE keyturn_lock SET through = 0 WHERE lock_key = 'b'")
		done := make(chan error, 1)
		req.Owner += "again"
		go func() {
			_, err := s.Acquire(t.Context(), req)
			done <- err
		}()
		awaitBlocked(t, d, 1)
		exec(t, conn, "UPDATE keyturn_lock SET through = 0 WHERE lock_key = 'a'") // waits for the store, and the store for us
		exec(t, conn, "COMMIT")
		if err := <-done; err != nil {
			t.Errorf("Acquire: %v", err)
		}
	})
}

// awaitBlocked waits until at least so many transactions wait for locks of rows.
func awaitBlocked(t *testing.T, d *sqltest.Database, least int) {
	t.Helper()
	db := d.Open(t)
	question := by(d, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()",
		"SELECT count(*) FROM information_schema.innodb_lock_waits")
	// MariaDB looks anew only if nobody has asked for 100 ms.
	for end := time.Now().Add(4 * time.Second); ; time.Sleep(150 * time.Millisecond) {
		var n int
		if err := db.QueryRow(question).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n >= least {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d wait instead of %d", n, least)
		}
	}
}

// TestLockTimeout: the session gives up waiting for a row. On MySQL that undoes the statement and
// leaves the transaction open; the store repeats all of it.
func TestLockTimeout(t *testing.T) {
	withServers(t, func(t *testing.T, d *sqltest.Database) {
		s := open(t, d.OpenWith(t, d.Server.Addr(), by(d, "lock_timeout=100", "innodb_lock_wait_timeout=1")), dialectOf(d))
		g, err := s.Acquire(t.Context(), request("k", time.Minute)) // makes the row
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Release(t.Context(), g); err != nil {
			t.Fatal(err)
		}
		tx, err := d.Open(t).Begin()
		if err != nil {
			t.Fatal(err)
		}
		exec(t, tx, "UPDATE keyturn_lock SET through = 1 WHERE lock_key = 'k'")
		defer tx.Rollback()
		timer := time.AfterFunc(1500*time.Millisecond, func() { _ = tx.Rollback() })
		defer timer.Stop()
		if _, err := s.Acquire(t.Context(), request("k", time.Minute)); err != nil {
			t.Errorf("Acquire: %v", err)
		}
	})
}

// TestNoTransactionStaysOpen after an answer that changes nothing: the rows would stay locked.
func TestNoTransactionStaysOpen(t *testing.T) {
	withServers(t, func(t *testing.T, d *sqltest.Database) {
		s := open(t, d.Open(t), dialectOf(d))
		req := request("k", time.Minute)
		req.Claims = append(req.Claims, driver.Exclusive("l"))
		g, err := s.Acquire(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		lost := g
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

// TestReadOnlyConnection: the pool has a connection to a server that has become read-only. It is
// closed, and the next one may lead to the new primary.
func TestReadOnlyConnection(t *testing.T) {
	withServers(t, func(t *testing.T, d *sqltest.Database) {
		db := d.Open(t)
		db.SetMaxOpenConns(1)
		s := open(t, db, dialectOf(d))
		demote := by(d, "SET default_transaction_read_only = on", "SET SESSION TRANSACTION READ ONLY")
		exec(t, db, demote)
		g, err := s.Acquire(t.Context(), request("k", time.Minute))
		if err != nil {
			t.Fatalf("Acquire: %v", err)
		}
		exec(t, db, demote)
		if err := s.Release(t.Context(), g); err != nil {
			t.Errorf("Release: %v", err)
		}

		// If every connection leads there, the error says so.
		all := d.OpenWith(t, d.Server.Addr(), by(d, "default_transaction_read_only=on", "tx_read_only=1"))
		_, err = open(t, all, dialectOf(d)).Acquire(t.Context(), request("k", time.Minute))
		var out *driver.UnavailableError
		if !errors.Is(err, sqlstore.ErrReadOnly) || !errors.As(err, &out) || !out.Refused {
			t.Errorf("Acquire of a server that is read-only: %v", err)
		}
	})
}
