package dbtest

import (
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/storetest"
	"github.com/keyturn/keyturn/pgx/pgwake"
	"github.com/keyturn/keyturn/store/sqlstore"
)

// PostgreSQL reports success for a COMMIT whose wait for a replica is cancelled, with a warning, which
// database/sql does not pass on: a lease was granted that the replica never got. An administrator cancels the
// wait, or the driver does when the store gives the statement up after 5 s.
func TestACancelledWaitGrantsNothing(t *testing.T) {
	t.Parallel()
	servertest.Long(t)
	pool := func(t *testing.T, p *pair, set func(*pgx.ConnConfig)) driver.Store {
		config, err := pgx.ParseConfig(p.DSN())
		must(t, err)
		set(config)
		db := stdlib.OpenDB(*config)
		t.Cleanup(func() { _ = db.Close() })
		return open(t, db, sqlstore.Postgres)
	}
	for name, c := range map[string]struct {
		open  func(*testing.T, *pair) driver.Store
		admin bool
	}{
		"by URL": {func(t *testing.T, p *pair) driver.Store { return opened(t, urlOf(p.Database)) }, true},
		"a pool of the program": {func(t *testing.T, p *pair) driver.Store {
			return pool(t, p, func(c *pgx.ConnConfig) { c.OnNotice = pgwake.OnNotice })
		}, true},
		"a driver that cancels": {func(t *testing.T, p *pair) driver.Store {
			return pool(t, p, func(c *pgx.ConnConfig) {
				c.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
					return &pgconn.CancelRequestContextWatcherHandler{Conn: c, DeadlineDelay: 10 * time.Second}
				}
			})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t)
			s := c.open(t, p)
			p.Server.Synchronous(t)
			refusesSetting(t, p.Database, "statement_timeout=3000", "statement_timeout") // it would cancel the wait, too
			hold := take(t, s, request("held", time.Minute))
			cancelled := func() int { return 3 }
			if c.admin {
				storetest.AreRisks(t, s, "fsync")
				cancelled = cancelWaits(t, p)
			}
			p.network.Cut()
			// A statement, and a transaction.
			for _, req := range []driver.Request{request("a", time.Minute), request("b", time.Minute, driver.Exclusive("c"))} {
				if g, err := s.Acquire(t.Context(), req); !errors.Is(err, driver.ErrUnavailable) {
					t.Errorf("a grant without the replica: %+v, %v", g, err)
				}
			}
			if err := s.Renew(t.Context(), []driver.Grant{hold})[0]; !errors.Is(err, driver.ErrUnavailable) {
				t.Errorf("a renewal without the replica: %v", err)
			}
			n := cancelled()
			check(t, n >= 3, "%d waits were cancelled", n)
			p.Server.Kill() // DROP DATABASE would wait for the replica
		})
	}
}

// cancelWaits cancels every wait for the replica until the function that it returns is called, which returns
// how many there were.
func cancelWaits(t *testing.T, p *pair) func() int {
	db := p.Open(t)
	stop, done := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		defer func() { done <- n }()
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
			var some sql.NullInt64
			if err := db.QueryRow("SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND pid <> pg_backend_pid()").Scan(&some); err == nil {
				n += int(some.Int64)
			}
		}
	}()
	return func() int { close(stop); return <-done }
}
