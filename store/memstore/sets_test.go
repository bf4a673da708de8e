package memstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
)

// setOf asks for keys exclusively; those that begin with r are shared.
func setOf(owner string, ttl time.Duration, keys ...string) driver.Request {
	req := driver.Request{Owner: owner, TTL: ttl}
	for _, key := range slices.Sorted(slices.Values(keys)) {
		c := driver.Exclusive(key)
		if strings.HasPrefix(key, "r") {
			c = driver.Shared(key)
		}
		req.Claims = append(req.Claims, c)
	}
	return req
}

// isHeldBy reports who holds key.
func isHeldBy(t *testing.T, s *Store, key string, want ...string) {
	t.Helper()
	info, err := s.Inspect(bg, key)
	must(t, err)
	var got []string
	for _, h := range info.Holders {
		got = append(got, h.Owner)
	}
	expect(t, slices.Equal(got, want), "%s is held by %q, want %q", key, got, want)
}

// TestSetThatLosesAPart begins again where that was, so that it never holds a key while it waits for an earlier one.
func TestSetThatLosesAPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		mustAcquire(t, s, request("c", 0, 8*time.Second))
		set := enqueue(t, s, setOf("set", time.Minute, "a", "b", "c"))
		second := enqueue(t, s, request("a", 1, 9*time.Second))
		had, err := s.ForceRelease(bg, "a", "test")
		expect(t, err == nil && len(had) == 1 && had[0].Owner == "set", "%v, %v", had, err)
		isHeldBy(t, s, "a", "a/1")
		time.Sleep(8 * time.Second) // its turn on c comes, and it sees
		synctest.Wait()
		isHeldBy(t, s, "b")
		isHeldBy(t, s, "c")
		second.Granted()
		g := set.Granted()
		must(t, errors.Join(s.Renew(bg, []driver.Grant{g})[0], s.Release(bg, g)))
		checkEmpty(t, s)
	})
}

// TestSetThatLosesAPartWhileItWaits goes back to where that was.
func TestSetThatLosesAPartWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		c := mustAcquire(t, s, request("c", 0, time.Hour))
		set := enqueue(t, s, setOf("set", 3*time.Second, "a", "b", "c"))
		second := enqueue(t, s, request("a", 1, time.Hour))
		must(t, checktest.ErrorOf(s.ForceRelease(bg, "a", "test")))
		time.Sleep(time.Second) // it looks after its claims
		synctest.Wait()
		isHeldBy(t, s, "b")
		for key, want := range map[string]int{"a": 1, "c": 0} {
			info, _ := s.Inspect(bg, key)
			expect(t, len(info.Waiters) == want, "%s is waited for by %+v", key, info.Waiters)
		}
		must(t, errors.Join(s.Release(bg, c), s.Release(bg, second.Granted()), s.Release(bg, set.Granted())))
		checkEmpty(t, s)
	})
}

func TestSetStress(t *testing.T) {
	const workers, rounds, keys = 24, 150, 6
	s := New()
	var inside [keys]atomic.Int64 // -1: a writer; else readers, or permits times 1000
	var last [keys]atomic.Uint64
	var all sync.WaitGroup
	for w := range workers {
		st := s.Peer()
		all.Go(func() {
			for round := range rounds {
				req := driver.Request{Owner: fmt.Sprintf("%d.%d", w, round), TTL: 10 * time.Second, Wait: true}
				for key := range keys {
					name := fmt.Sprint(key)
					switch rand.N(8) {
					case 0:
						req.Claims = append(req.Claims, driver.Exclusive(name))
					case 1:
						req.Claims = append(req.Claims, driver.Shared(name))
					case 2:
						req.Claims = append(req.Claims, driver.Permit(name, 2))
					}
				}
				if len(req.Claims) == 0 {
					continue
				}
				ctx, cancel := context.WithTimeout(bg, time.Minute)
				if rand.N(4) == 0 {
					ctx, cancel = context.WithTimeout(bg, rand.N(time.Millisecond))
				}
				g, err := st.Acquire(ctx, req)
				patient := ctx.Err() == nil
				cancel()
				if err != nil {
					expect(t, !patient && errors.Is(err, driver.ErrHeld), "%v", err)
					continue
				}
				for _, c := range g.Claims {
					enter(t, c, g.Token, inside[:], last[:])
				}
				if rand.N(2) == 0 {
					time.Sleep(rand.N(100 * time.Microsecond))
				}
				for _, c := range g.Claims {
					inside[c.Key[0]-'0'].Add(-weight(c))
				}
				wantNil(t, st.Release(bg, g))
			}
		})
	}
	all.Wait()
	checkEmpty(t, s)
}

func weight(c driver.Claim) int64 {
	return map[driver.Mode]int64{driver.ModeExclusive: 1_000_000, driver.ModeShared: 1, driver.ModePermit: 1000}[c.Mode]
}

func enter(t *testing.T, c driver.Claim, token uint64, inside []atomic.Int64, last []atomic.Uint64) {
	key := c.Key[0] - '0'
	n := inside[key].Add(weight(c))
	switch {
	case c.Mode == driver.ModeExclusive && n != 1_000_000,
		c.Mode == driver.ModeShared && n >= 1000,
		c.Mode == driver.ModePermit && n != 1000 && n != 2000:
		t.Errorf("%+v in force with %d", c, n)
	}
	if c.Mode == driver.ModeExclusive {
		before := last[key].Swap(token)
		expect(t, before < token, "%s: token %d after %d", c.Key, token, before)
	}
}
