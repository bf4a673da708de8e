package dbtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/sqltest"
	"github.com/keyturn/keyturn/internal/storetest"
	"github.com/keyturn/keyturn/pgx/pgwake"
)

// openStores opens stores of d whose sessions have these settings.
func openStores(t *testing.T, d *sqltest.Database, n int, settings string) []driver.Store {
	t.Helper()
	stores := make([]driver.Store, n)
	for i := range stores {
		stores[i] = open(t, d.OpenAt(t, d.Server.Addr(), settings), dialectOf(d), quick...)
	}
	return stores
}

// takeTurns has callers of each store wait for one key, each that many times, and checks that one
// at a time has it, under increasing tokens. The key is that of TestBackslashesInLiterals.
func takeTurns(t *testing.T, stores []driver.Store, callers, times int) {
	t.Helper()
	const key = "tu"
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var inside atomic.Int64
	var last atomic.Uint64
	var all sync.WaitGroup
	for _, s := range stores {
		for range callers {
			all.Go(func() {
				for range times {
					req := request(key, time.Minute)
					req.Wait = true
					g, err := s.Acquire(ctx, req)
					if err != nil {
						t.Errorf("Acquire: %v", err)
						return
					}
					n := inside.Add(1)
					check(t, n == 1, "%d hold the key", n)
					before := last.Swap(g.Token)
					check(t, before < g.Token, "token %d after %d", g.Token, before)
					inside.Add(-1)
					if err := s.Release(ctx, g); err != nil {
						t.Errorf("Release: %v", err)
					}
				}
			})
		}
	}
	all.Wait()
}

// TestStricterIsolation: the sessions of the pool are SERIALIZABLE, so the database refuses statements
// because of others. The store repeats them.
func TestStricterIsolation(t *testing.T) {
	withServers(t, func(t *testing.T, d *sqltest.Database) {
		stores := openStores(t, d, 3, by(d, "default_transaction_isolation=serializable", "tx_isolation='SERIALIZABLE'"))
		takeTurns(t, stores, 3, 3)
		var all sync.WaitGroup
		for i := range 6 { // one statement each, on the same few rows
			all.Go(func() {
				for k := range 10 {
					g, err := stores[i%3].Acquire(t.Context(), request(fmt.Sprint("k", k%3), time.Minute))
					if err == nil {
						err = stores[i%3].Release(t.Context(), g)
					}
					if err != nil && !errors.Is(err, driver.ErrHeld) {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
	})
}

// TestNewKeysAreTakenOnce: a key that nobody has used has no row that could be locked. One
// request at a time has the key, whichever of them makes the row.
func TestNewKeysAreTakenOnce(t *testing.T) {
	onEach(t, func(t *testing.T, d *sqltest.Database) {
		var stores []driver.Store
		for range 3 {
			stores = append(stores, open(t, d.Open(t), dialectOf(d)))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for k := range 10 {
			var got atomic.Int64
			var all sync.WaitGroup
			for i := range 9 {
				all.Go(func() {
					// Claims that are not exclusive take no short cut.
					if _, err := stores[i%3].Acquire(ctx, storetest.RequestFor(time.Minute, driver.Permit(fmt.Sprint("k", k), 1))); err == nil {
						got.Add(1)
					}
				})
			}
			all.Wait()
			n := got.Load()
			check(t, n == 1, "%d requests have the only permit of a new key", n)
		}
	})
}

// TestNothingBelongsToASession: behind a bouncer with fewer connections than there are clients,
// every transaction may run in another session.
func TestNothingBelongsToASession(t *testing.T) {
	d := onPostgres(t)
	addr := d.Bouncer(t, "default_pool_size = 2").Addr()
	stores := make([]driver.Store, 3)
	for i := range stores {
		stores[i] = open(t, d.OpenAt(t, addr, "default_query_exec_mode=exec"), dialectOf(d), quick...)
	}
	takeTurns(t, stores, 4, 3)
}

// A listener behind a pooler heard nothing, and nothing said so: waiters then looked once a second.
func TestAListenerBehindAPooler(t *testing.T) {
	d := onPostgres(t)
	for mode, want := range map[string]error{"transaction": pgwake.ErrPooler, "session": nil} { // the latter keeps connections
		l, err := pgwake.Dial(t.Context(), d.DSNAt(d.Bouncer(t, "pool_mode = "+mode).Addr()))
		check(t, errors.Is(err, want), "Dial behind a pooler of a %s: %v", mode, err)
		if err == nil {
			_ = l.Close()
		}
	}
}
