package memstore

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/keystate"
	"github.com/keyturn/keyturn/internal/storetest"
)

var (
	must        = checktest.Must
	expect      = checktest.That
	require     = checktest.Require
	wantNil     = checktest.WantNil
	wantIs      = checktest.WantIs
	mustAcquire = storetest.Hold
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var bg = context.Background()

// request is by an owner of its own: the key and a number.
func request(key string, n int, ttl time.Duration) driver.Request {
	return driver.Request{
		Owner:  fmt.Sprintf("%s/%d", key, n),
		Claims: []driver.Claim{driver.Exclusive(key)},
		TTL:    ttl,
	}
}

// enqueue puts a request in line, and waits until it sleeps there. For use in a bubble.
func enqueue(t *testing.T, s *Store, req driver.Request) *storetest.Waiting {
	t.Helper()
	w := storetest.Enqueue(t, s, req)
	synctest.Wait()
	return w
}

// size is how many keys that are held or waited for, and records, are in memory.
func (m *memory) size() (entries, records int) {
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		entries += len(s.entries)
		records += len(s.records)
		s.mu.Unlock()
	}
	return entries, records
}

func checkEmpty(t *testing.T, s *Store) {
	t.Helper()
	entries, records := s.mem.size()
	expect(t, entries+records == 0, "left in memory: %d keys, %d records", entries, records)
}

// sweepAll is what the next keys to come would set off.
func (m *memory) sweepAll() {
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		s.sweepAt = 0
		s.sweep(time.Now())
		s.mu.Unlock()
	}
}

// TestSweep has holders die, a hundred thousand in all, some at a time.
func TestSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rounds, keys = 100, 1000
		s := New()
		kept := mustAcquire(t, s, request("kept", 0, time.Hour))
		must(t, s.Complete(bg, mustAcquire(t, s, request("done", 0, time.Second)), driver.Record{Trace: "t"}, time.Hour))
		most := 0
		for round := range rounds {
			for i := range keys {
				key := fmt.Sprintf("key:%d:%d", round, i)
				g := mustAcquire(t, s, request(key, 0, time.Second))
				if i%2 == 0 {
					must(t, s.Complete(bg, g, driver.Record{}, time.Second))
				}
			}
			entries, records := s.mem.size()
			most = max(most, entries+records)
			time.Sleep(2 * time.Second)
		}
		// What is in force, as much again that may wait for a sweep, and the floor.
		bound := 2*keys + sweepFloor*len(s.mem.shards)
		expect(t, most <= bound, "%d leases and records were in memory at a time, of at most %d in force; want at most %d", most, keys, bound)
		wantIs(t, "a sweep took a lease that is in force", s.Release(bg, kept), nil)
		_, rec, err := s.Begin(bg, request("done", 1, time.Second))
		expect(t, err == nil && rec != nil && rec.Trace == "t", "a sweep took a record that is in force: %+v, %v", rec, err)
	})
}

// TestBadGrants are ones that no Acquire gave. They must not spoil the memory of a key for others.
func TestBadGrants(t *testing.T) {
	s := New()
	held := mustAcquire(t, s, driver.Request{Owner: "o", Claims: []driver.Claim{driver.Exclusive("a")}, TTL: time.Hour})
	for _, g := range []driver.Grant{
		{},
		{Claims: []driver.Claim{driver.Exclusive("a")}},
		{Owner: "o", Claims: []driver.Claim{driver.Exclusive("a")}, Token: held.Token + 1},
		{Owner: "other", Claims: []driver.Claim{driver.Exclusive("a"), driver.Exclusive("b")}},
		{Owner: "o", Claims: []driver.Claim{driver.Exclusive("k"), driver.Exclusive("k")}, TTL: time.Minute, Token: 1},
	} {
		for what, err := range map[string]error{
			"Renew":    s.Renew(bg, []driver.Grant{g})[0],
			"Release":  s.Release(bg, g),
			"Complete": s.Complete(bg, g, driver.Record{}, time.Hour),
		} {
			wantIs(t, what, err, driver.ErrLeaseLost)
		}
	}
	for _, g := range []driver.Grant{held, mustAcquire(t, s, request("c", 0, time.Minute)), mustAcquire(t, s, request("d", 0, time.Minute))} {
		storetest.Release(t, s, g)
	}
	checkEmpty(t, s)
}

// TestMemoryOfModes: ten thousand keys, held in each way there is, and ended in
// each way there is, leave nothing but the bounded.
func TestMemoryOfModes(t *testing.T) {
	ends := map[string]func(*Store, driver.Grant){
		"released": func(s *Store, g driver.Grant) { _ = s.Release(bg, g) },
		"dead":     func(*Store, driver.Grant) {},
		"forced": func(s *Store, g driver.Grant) {
			for _, c := range g.Claims {
				_, _ = s.ForceRelease(bg, c.Key, "test")
			}
		},
	}
	for what, end := range ends {
		synctest.Test(t, func(t *testing.T) {
			const keys = 10_000
			s := New()
			most := 0
			for i := range keys {
				a, b := fmt.Sprint("a:", i), fmt.Sprint("b:", i)
				set := []driver.Claim{driver.Exclusive(a), driver.Permit(b, 2)}
				all := [][]driver.Claim{{driver.Shared(a)}, {driver.Shared(a)}, {driver.Permit(b, 3)}, {driver.Permit(b, 3)}}
				if i%2 == 0 {
					all = [][]driver.Claim{set}
				}
				var grants []driver.Grant
				for n, claims := range all {
					grants = append(grants, mustAcquire(t, s, driver.Request{Owner: fmt.Sprint(i, ".", n), Claims: claims, TTL: time.Second}))
				}
				if i%100 == 0 {
					enqueue(t, s, driver.Request{Owner: "waits", Claims: set, TTL: time.Second}).Cancel()
				}
				for _, g := range grants {
					end(s, g)
				}
				if i%100 == 0 {
					synctest.Wait()
					entries, _ := s.mem.size()
					most = max(most, entries)
					time.Sleep(time.Second)
				}
			}
			// At most 200 are in force at a time.
			bound := 2*200 + sweepFloor*len(s.mem.shards)
			expect(t, most <= bound, "%s: %d keys were in memory at a time, want at most %d", what, most, bound)
			time.Sleep(keystate.ReasonKept)
			s.mem.sweepAll()
			checkEmpty(t, s)
			for i := range s.mem.shards {
				sh := &s.mem.shards[i]
				if len(sh.forced.byLease)+cap(sh.forced.order) > 0 || len(sh.idle) > mostIdle {
					t.Errorf("%s: kept %d notes, %d idle entries", what, len(sh.forced.byLease), len(sh.idle))
				}
			}
		})
	}
}

// TestPairAllocatesNothing: the middlewares' overhead rests on it.
func TestPairAllocatesNothing(t *testing.T) {
	s, req := New(), request("k", 0, time.Minute)
	allocs := testing.AllocsPerRun(1000, func() {
		g, err := s.Acquire(bg, req)
		if err != nil || s.Release(bg, g) != nil {
			t.Fatal(err)
		}
	})
	expect(t, allocs == 0, "%v allocations for an acquire and its release", allocs)
}
