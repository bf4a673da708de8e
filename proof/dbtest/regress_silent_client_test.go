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
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/sqltest"
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
		f := new(faulty)
		s := open(t, f.openDSN(t, d, d.DSNAt(network.Addr())), dialectOf(d))
		held, onward := f.holdBack(isLoad)
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
		if keys := lost(); keys != nil {
			t.Errorf("the leases on %v are lost", keys)
		}
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
		free := lockRows(t, d, stuck...)
		var all sync.WaitGroup
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var named atomic.Int64
		acquire := func(key string, within time.Duration) (driver.Grant, error) {
			brief, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			return s.Acquire(brief, request(key, time.Minute))
		}
		for i := range 40 {
			all.Go(func() {
				for ctx.Err() == nil {
					_, err := acquire(stuck[i%len(stuck)], 2*time.Second)
					var out *driver.UnavailableError
					if !errors.As(err, &out) {
						t.Errorf("Acquire of a key whose row is locked: %v", err)
						return
					} else if out.Refused {
						named.Add(1)
					}
				}
			})
		}
		for i := range 8 {
			all.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					g, err := acquire(fmt.Sprintf("free-%d-%d", i, n%20), 5*time.Second)
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
		if named.Load() == 0 {
			t.Error("no error says that the row is locked")
		}
		free()
		req := request("s1", time.Minute)
		req.Wait = true // one of the requests above may get the row now, and gives it back
		take(t, s, req)
	})
}

// isLoad tells the question that follows when the rows are locked.
func isLoad(query string) bool { return strings.HasPrefix(query, "SELECT c.us, l.lock_key") }

// A request arrived 9 s late, after it had been given up and undone. It locked the key for the whole TTL.
func TestALatePacketKeepsNoKey(t *testing.T) {
	servertest.Long(t)
	withServers(t, func(t *testing.T, d *sqltest.Database) {
		const late = 9 * time.Second
		network := servertest.NewProxy(t, d.Server.Addr())
		db := d.OpenAt(t, network.Addr())
		db.SetMaxOpenConns(2)
		s, other := open(t, db, dialectOf(d)), open(t, d.Open(t), dialectOf(d))
		use(t, s, "warm", "warm", "warm") // the driver knows the statement then
		use(t, other, "k")                // MariaDB takes rows that exist
		network.DelayNext(late)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if _, err := s.Acquire(ctx, request("k", time.Minute)); !errors.Is(err, driver.ErrUnavailable) {
			t.Fatalf("Acquire: %v", err)
		}
		taken := time.Time{}
		for time.Since(began) < 3*late {
			info, err := other.Inspect(t.Context(), "k")
			must(t, err)
			switch held := len(info.Holders) > 0; {
			case held && taken.IsZero():
				taken = time.Now()
			case !held && !taken.IsZero():
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		t.Errorf("locked to nobody since %v (zero: the packet did not arrive)", taken)
	})
}
