package dbtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/sqltest"
	"github.com/keyturn/keyturn/internal/storetest"
	"github.com/keyturn/keyturn/store/sqlstore"
)

// lockRows locks the rows of keys in a transaction that stays open until the test ends, or the caller
// calls free.
func lockRows(t *testing.T, d *sqltest.Database, keys ...string) (free func()) {
	t.Helper()
	tx, err := d.Open(t).BeginTx(t.Context(), nil)
	must(t, err)
	for _, key := range keys {
		exec(t, tx, fmt.Sprintf("UPDATE keyturn_lock SET through = through + 1 WHERE lock_key = '%s'", key))
	}
	exec(t, tx, "UPDATE keyturn_version SET until = until + 1")
	free = sync.OnceFunc(func() { _ = tx.Rollback() })
	t.Cleanup(free)
	return free
}

// hold has eng acquire so many keys, and counts the leases that are lost.
func hold(t *testing.T, eng *core.Engine, count int) (lost func() (keys []string)) {
	t.Helper()
	leases := make(map[string]*core.Lease)
	for i := range count {
		key := fmt.Sprint("k", i)
		leases[key] = lease(t, eng, key)
	}
	return func() (keys []string) {
		for key, l := range leases {
			if l.Err() != nil {
				keys = append(keys, key)
			}
		}
		return keys
	}
}

// A transaction of somebody else kept the row of one lease locked. All leases of the process were
// renewed by one statement, which waited for it, so all of them ran out.
func TestALockedRowCostsNoOtherLease(t *testing.T) {
	servertest.Long(t)
	withServers(t, func(t *testing.T, d *sqltest.Database) {
		const ttl = 3 * time.Second
		eng := engineOn(t, open(t, d.Open(t), dialectOf(d)), core.WithTTL(ttl))
		lost := hold(t, eng, 21)
		lockRows(t, d, "k7")
		time.Sleep(2 * ttl) // the time is what the test is about
		for _, key := range lost() {
			check(t, key == "k7", "the lease on %s is lost", key)
		}
	})
}

// A process that asked for a held key was cut off between its questions and its COMMIT. The server kept
// its transaction, and the row, for as long as it had no sign from the network.
func TestAnAskerThatFallsSilentCostsNoLease(t *testing.T) {
	servertest.Long(t)
	withServers(t, func(t *testing.T, d *sqltest.Database) {
		const ttl = 9 * time.Second
		eng := engineOn(t, open(t, d.Open(t), dialectOf(d)), core.WithTTL(ttl))
		lost := hold(t, eng, 21)

		network := servertest.NewProxy(t, d.Server.Addr())
		f := new(sqltest.Faults)
		s := open(t, f.OpenDSN(t, d, d.DSNAt(network.Addr())), dialectOf(d))
		held, onward := f.HoldBack(isLoad)
		defer onward()
		ctx, cancel := context.WithCancel(t.Context())
		var asker sync.WaitGroup
		asker.Go(func() {
			req := request("k7", ttl)
			req.Wait = true
			_, _ = s.Acquire(ctx, req)
		})
		<-held // its row is locked now
		network.Blackhole()
		time.Sleep(2 * ttl)
		keys := lost()
		check(t, keys == nil, "the leases on %v are lost", keys)
		cancel()
		onward()
		network.Cut()
		asker.Wait()
	})
}

// The rows of four keys were locked, and requests for these keys waited on all connections that the
// store may use. Nearly all requests for other keys failed.
func TestLockedRowsCostNoOtherKeys(t *testing.T) {
	servertest.Long(t)
	withServers(t, func(t *testing.T, d *sqltest.Database) {
		s := open(t, d.Open(t), dialectOf(d))
		stuck := []string{"s1", "s2", "s3", "s4"}
		use(t, s, stuck...)
		must(t, checktest.ErrorOf(s.AdvanceVersion(t.Context(), "v", 1, time.Hour)))
		free := lockRows(t, d, stuck...)
		var all sync.WaitGroup
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		acquire := func(claim driver.Claim, within time.Duration) (driver.Grant, error) {
			brief, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			return s.Acquire(brief, storetest.RequestFor(time.Minute, claim))
		}
		kinds := []func() error{ // the last two are never a statement of their own
			func() error { return checktest.ErrorOf(acquire(driver.Exclusive("s1"), 2*time.Second)) },
			func() error { return checktest.ErrorOf(acquire(driver.Exclusive("s2"), 2*time.Second)) },
			func() error {
				brief, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				return checktest.ErrorOf(s.AdvanceVersion(brief, "v", 2, time.Hour))
			},
			func() error { return checktest.ErrorOf(acquire(driver.Shared("s3"), 2*time.Second)) },
			func() error { return checktest.ErrorOf(acquire(driver.Shared("s4"), 2*time.Second)) },
		}
		named := make([]atomic.Int64, len(kinds))
		for i := range 40 {
			all.Go(func() {
				for ctx.Err() == nil {
					err := kinds[i%len(kinds)]()
					var out *driver.UnavailableError
					if !errors.As(err, &out) {
						t.Errorf("kind %d: a request whose row is locked: %v", i%len(kinds), err)
						return
					} else if out.Refused {
						named[i%len(kinds)].Add(1)
					}
				}
			})
		}
		for i := range 8 {
			all.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					g, err := acquire(driver.Exclusive(fmt.Sprintf("free-%d-%d", i, n%20)), 4*time.Second)
					if err == nil {
						err = s.Release(t.Context(), g)
					}
					if err != nil {
						t.Errorf("a free key: %v", err)
						return
					}
				}
			})
		}
		all.Wait()
		for i := range named {
			check(t, named[i].Load() > 0, "kind %d: no error says that the row is locked", i)
		}
		free()
		req := request("s1", time.Minute)
		req.Wait = true // one of the requests above may get the row now, and gives it back
		take(t, s, req)
	})
}

// isLoad tells the question that follows when the rows are locked.
func isLoad(query string) bool { return strings.HasPrefix(query, "SELECT c.us, l.lock_key") }

// A session kept the row of one waiter locked. The signs of life of all waiters of the process waited for it, so they
// lost their places.
func TestALockedWaiterCostsNoOtherPlace(t *testing.T) {
	servertest.Long(t)
	withServers(t, func(t *testing.T, d *sqltest.Database) {
		const lease = 2 * time.Second
		s, other := open(t, d.Open(t), dialectOf(d), sqlstore.WithWaiterLease(lease)), open(t, d.Open(t), dialectOf(d))
		take(t, other, request("k1", time.Minute))
		take(t, other, request("k2", time.Minute))
		locked, w := enqueue(t, s, request("k1", time.Minute)), enqueue(t, s, request("k2", time.Minute))
		tx, err := d.Open(t).Begin()
		must(t, err)
		defer func() { _ = tx.Rollback() }()
		exec(t, tx, "UPDATE keyturn_member SET nr = nr WHERE owner = '"+locked.Owner+"'")
		for end := time.Now().Add(2 * lease); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			info, err := other.Inspect(t.Context(), "k2")
			must(t, err)
			if len(info.Waiters) != 1 || info.Waiters[0].Owner != w.Owner {
				t.Fatalf("%s is no longer in the queue: %+v", w.Owner, info.Waiters)
			}
		}
	})
}
