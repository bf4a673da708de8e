package dbtest

import (
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/pgx/pgwake"
	"github.com/keyturn/keyturn/store/sqlstore"
)

// An administrator cancels the wait for a replica that is out. PostgreSQL reports success with a warning,
// which database/sql does not pass on: a lease was granted that the replica never got.
func TestACancelledWaitGrantsNothing(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T, *pair) driver.Store{
		"by URL": func(t *testing.T, p *pair) driver.Store { return opened(t, urlOf(p.Database)) },
		"a pool of the program": func(t *testing.T, p *pair) driver.Store {
			config, err := pgx.ParseConfig(p.DSN())
			if err != nil {
				t.Fatal(err)
			}
			config.OnNotice = pgwake.OnNotice
			db := stdlib.OpenDB(*config)
			t.Cleanup(func() { _ = db.Close() })
			return open(t, db, sqlstore.Postgres)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t)
			s := open(t, p)
			set := request("b", time.Minute)
			set.Claims = append(set.Claims, driver.Exclusive("c"))
			p.Server.Synchronous(t)
			finds(t, s, "fsync")
			hold, err := s.Acquire(t.Context(), request("held", time.Minute))
			if err != nil {
				t.Fatal(err)
			}
			p.network.Cut()
			cancelled := cancelWaits(t, p)
			for _, req := range []driver.Request{request("a", time.Minute), set} { // a statement, and a transaction
				if g, err := s.Acquire(t.Context(), req); !errors.Is(err, driver.ErrUnavailable) {
					t.Errorf("a grant without the replica: %+v, %v", g, err)
				}
			}
			if err := s.Renew(t.Context(), []driver.Grant{hold})[0]; !errors.Is(err, driver.ErrUnavailable) {
				t.Errorf("a renewal without the replica: %v", err)
			}
			if n := cancelled(); n < 3 {
				t.Errorf("%d waits were cancelled", n)
			}
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
			_ = rowsOf(db, "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND pid <> pg_backend_pid()", func() { n++ })
		}
	}()
	return func() int { close(stop); return <-done }
}

func rowsOf(db *sql.DB, question string, f func()) error {
	rows, err := db.Query(question)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		f()
	}
	return rows.Err()
}
