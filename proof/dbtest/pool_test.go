package dbtest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/sqltest"
	"github.com/keyturn/keyturn/store/sqlstore"
)

// TestWaitersNeedNoConnections: a thousand requests wait, and the pool has five connections. All
// of them are served, and the program gets a connection meanwhile.
func TestWaitersNeedNoConnections(t *testing.T) {
	t.Parallel()
	d := sqltest.Postgres(t)
	migrate(t, d)
	db := d.Open(t)
	db.SetMaxOpenConns(5)
	s := open(t, db, sqlstore.Postgres)
	const keys, each = 100, 10
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var holds []driver.Grant
	for k := range keys {
		g, err := s.Acquire(ctx, request(fmt.Sprint("k", k), 10*time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		holds = append(holds, g)
	}
	var queued, all sync.WaitGroup
	for k := range keys {
		for range each {
			queued.Add(1)
			all.Go(func() {
				var once sync.Once
				req := request(fmt.Sprint("k", k), 10*time.Minute)
				req.Wait, req.OnHeld = true, func(driver.HeldError) { once.Do(queued.Done) }
				g, err := s.Acquire(ctx, req)
				once.Do(queued.Done)
				if err == nil {
					err = s.Release(ctx, g)
				}
				if err != nil {
					t.Errorf("a waiter: %v", err)
				}
			})
		}
	}
	queued.Wait()
	for _, g := range holds {
		if err := s.Renew(ctx, []driver.Grant{g})[0]; err != nil {
			t.Errorf("Renew: %v", err)
		}
		if err := s.Release(ctx, g); err != nil {
			t.Errorf("Release: %v", err)
		}
		quick, cancel := context.WithTimeout(ctx, 10*time.Second)
		if _, err := db.ExecContext(quick, "SELECT 1"); err != nil {
			t.Errorf("the program's own query: %v", err)
		}
		cancel()
	}
	all.Wait()
}

// TestStatements counts what the store sends.
func TestStatements(t *testing.T) {
	for name, dialect := range dialects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := dialect.database(t)
			migrate(t, d)
			f := new(faulty)
			s := open(t, f.open(t, d), dialect.Dialect)
			var grants []driver.Grant
			acquire := func(key string) {
				g, err := s.Acquire(t.Context(), request(key, time.Minute))
				if err != nil {
					t.Fatal(err)
				}
				grants = append(grants, g)
			}
			for i := range 1000 {
				acquire(fmt.Sprint("k", i))
			}
			f.breakAt(0, false)
			for i, err := range s.Renew(t.Context(), grants) {
				if err != nil {
					t.Fatalf("the renewal of %d: %v", i, err)
				}
			}
			if n := f.statements(); n != 2 {
				t.Errorf("%d statements for 1000 renewals, want 2", n)
			}
			f.breakAt(0, false)
			if err := s.Release(t.Context(), grants[0]); err != nil {
				t.Fatal(err)
			}
			acquire("k0")
			if n := f.statements(); n != 2 {
				t.Errorf("%d statements for a release and an acquisition, want 2", n)
			}
			f.breakAt(0, false)
			time.Sleep(3 * sqlstore.DefaultPoll)
			if n := f.statements(); n != 0 {
				t.Errorf("%d statements of a store with leases and without waiters", n)
			}
		})
	}
}

// TestHandoverOnPostgres takes six round trips from the call of Release to the other process's
// grant, if messages wake it.
func TestHandoverOnPostgres(t *testing.T) {
	t.Parallel()
	d := sqltest.Postgres(t)
	migrate(t, d)
	f := new(faulty)
	a := open(t, f.open(t, d), sqlstore.Postgres, append(seldom, listen(t, d, d.Server.Addr()))...)
	b := open(t, f.open(t, d), sqlstore.Postgres)
	hold, granted := held(t, a, b)
	f.breakAt(0, false)
	if err := b.Release(t.Context(), hold); err != nil {
		t.Fatal(err)
	}
	if _, ok := <-granted; !ok {
		t.FailNow()
	}
	if n := f.statements(); n > 6 {
		t.Errorf("%d statements", n)
	}
}
