package dbtest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/sqltest"
	"github.com/keyturn/keyturn/internal/storetest"
	"github.com/keyturn/keyturn/store/sqlstore"
)

// TestWaitersNeedNoConnections: 300 requests wait, and the pool has five connections. All of them are served, and the program gets a connection meanwhile.
func TestWaitersNeedNoConnections(t *testing.T) {
	servertest.Long(t)
	d := onPostgres(t)
	db := d.Open(t)
	db.SetMaxOpenConns(5)
	s := open(t, db, sqlstore.Postgres)
	const keys, each = 30, 10
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var holds []driver.Grant
	for k := range keys {
		holds = append(holds, take(t, s, request(fmt.Sprint("k", k), 10*time.Minute)))
	}
	var waiters []*storetest.Waiting
	for k := range keys {
		for range each {
			waiters = append(waiters, storetest.Start(t, s, request(fmt.Sprint("k", k), 10*time.Minute)))
		}
	}
	var all sync.WaitGroup
	for _, w := range waiters {
		w.Waits()
		context.AfterFunc(ctx, w.Cancel)
		all.Go(func() {
			<-w.Answered()
			if g, err := w.Answer(); err != nil || s.Release(ctx, g) != nil {
				t.Errorf("a waiter: %v", err)
			}
		})
	}
	for _, g := range holds {
		must(t, s.Renew(ctx, []driver.Grant{g})[0])
		must(t, s.Release(ctx, g))
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
	onEach(t, func(t *testing.T, d *sqltest.Database) {
		f := new(sqltest.Faults)
		s := open(t, f.Open(t, d), dialectOf(d))
		leases, want := 600, 2 // as many as one statement does not take
		if testing.Short() {
			leases, want = 50, 1
		}
		var grants []driver.Grant
		for i := range leases {
			grants = append(grants, take(t, s, request(fmt.Sprint("k", i), time.Minute)))
		}
		f.BreakAt(0, false)
		for i, err := range s.Renew(t.Context(), grants) {
			if err != nil {
				t.Fatalf("the renewal of %d: %v", i, err)
			}
		}
		if n := f.Statements(); n != want {
			t.Errorf("%d statements for %d renewals, want %d", n, leases, want)
		}
		f.BreakAt(0, false)
		must(t, s.Release(t.Context(), grants[0]))
		take(t, s, request("k0", time.Minute))
		if n := f.Statements(); n != 2 {
			t.Errorf("%d statements for a release and an acquisition, want 2", n)
		}
		f.BreakAt(0, false)
		time.Sleep(3 * sqlstore.DefaultPoll)
		if n := f.Statements(); n != 0 {
			t.Errorf("%d statements of a store with leases and without waiters", n)
		}
	})
}

// TestHandoverOnPostgres: a message wakes a waiter that looks once a minute. It takes six round trips from
// the call of Release to the other process's grant.
func TestHandoverOnPostgres(t *testing.T) {
	d := onPostgres(t)
	f := new(sqltest.Faults)
	a := open(t, f.Open(t, d), sqlstore.Postgres, append(seldom, listen(t, d, d.Server.Addr()))...)
	b := open(t, f.Open(t, d), sqlstore.Postgres)
	hold, w := behind(t, a, b, "k")
	f.BreakAt(0, false)
	must(t, b.Release(t.Context(), hold))
	w.Granted()
	n := f.Statements()
	check(t, n <= 6, "%d statements", n)
}
