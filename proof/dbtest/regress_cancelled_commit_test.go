package dbtest

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/sqlstore"
)

// The store gives a statement up after 5 s, and the driver then cancels it. PostgreSQL no longer waits for
// its replica, and reports success: a lease was granted that the replica never got.
func TestACancelledCommitGrantsNothing(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	config, err := pgx.ParseConfig(p.DSN())
	if err != nil {
		t.Fatal(err)
	}
	config.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: c, DeadlineDelay: 10 * time.Second}
	}
	db := stdlib.OpenDB(*config)
	t.Cleanup(func() { _ = db.Close() })
	s := open(t, db, sqlstore.Postgres)
	set := request("b", time.Minute)
	set.Claims = append(set.Claims, driver.Exclusive("c"))
	p.Server.Synchronous(t)
	p.network.Cut()
	for _, req := range []driver.Request{request("a", time.Minute), set} { // a statement, and a transaction
		if g, err := s.Acquire(t.Context(), req); !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("a grant without the replica: %+v, %v", g, err)
		}
	}
	p.Server.Kill() // DROP DATABASE would wait for the replica
}
