package redisstore_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/store/redisstore"
)

// nothingLeft waits until there is no key in the database but the counter and the reasons of forced releases. The last
// steps may come after an answer.
func nothingLeft(t testing.TB, server *redistest.Server) {
	t.Helper()
	eventually(t, 10*time.Second, "nothing is left behind", func() bool {
		return !slices.ContainsFunc(server.Client().Keys(bg, "*").Val(), func(key string) bool {
			return key != "{lock:}:token" && !strings.HasSuffix(key, "}:f")
		})
	})
}

// TestMarkerKeepsForeignClientsOut: SET NX finds the key taken in every mode, for
// as long as the last holder has it; and a foreign lock is in everybody's way.
func TestMarkerKeepsForeignClientsOut(t *testing.T) {
	t.Parallel()
	server := database(t)
	admin := server.Client()
	s := open(t, server.Client())
	for name, claim := range map[string]driver.Claim{"shared": driver.Shared("s"), "permit": driver.Permit("p", 3)} {
		lock := "lock:" + claim.Key
		take := func(owner string, ttl time.Duration) driver.Grant {
			g, err := s.Acquire(bg, driver.Request{Owner: owner, Claims: []driver.Claim{claim}, TTL: ttl})
			must(t, err)
			return g
		}
		lasts := func(least, most time.Duration, when string) {
			t.Helper()
			left := admin.PTTL(bg, lock).Val()
			check(t, left >= least && left <= most, "%s, %s: the marker lasts for %v", name, when, left)
		}
		short, long := take("short", 10*time.Second), take("long", time.Minute)
		check(t, !admin.SetNX(bg, lock, "foreign", time.Minute).Val(), "%s: a foreign client took the key from its holders", name)
		brief := take("brief", 10*time.Second)
		lasts(55*time.Second, time.Minute, "with a shorter lease")
		release(t, s, brief)
		must(t, renew(t, s, short))
		lasts(55*time.Second, time.Minute, "after a shorter renewal")
		release(t, s, long)
		lasts(5*time.Second, 10*time.Second, "with the short lease alone")
		release(t, s, short)
		check(t, admin.SetNX(bg, lock, "foreign", time.Minute).Val(), "%s: the key is not free after its last holder", name)
		wantEqual(t, name+": the holder", held(t, s, claim).Holder, "foreign")
		wantIs(t, name+": Renew", renew(t, s, short), driver.ErrLeaseLost)
		admin.Del(bg, lock)
	}
	nothingLeft(t, server)
}

// TestStaleHolders: if a marker was deleted, or a foreign client has replaced it, the holders
// beside it do not come back with the next marker.
func TestStaleHolders(t *testing.T) {
	t.Parallel()
	server, s := storeOn(t, database(t))
	old := lease(t, s, "old", driver.Shared("k"))
	server.Client().Del(bg, "lock:k")
	lease(t, s, "new", driver.Shared("k"))
	wantIs(t, "Renew", renew(t, s, old), driver.ErrLeaseLost)
	wantIs(t, "Release", s.Release(within(t, time.Second), old), driver.ErrLeaseLost)
}

// TestOutOfMemory: nothing new in any mode, but what is held is kept, recorded, released and passed on.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	server, s := storeOn(t, redistest.Start(t), noPolling)
	recorded := lease(t, s, "once", driver.Exclusive("r"))
	grants := []driver.Grant{
		lease(t, s, "alone", driver.Exclusive("x")),
		lease(t, s, "reader", driver.Shared("s")), lease(t, s, "reader2", driver.Shared("s")),
		lease(t, s, "permit", driver.Permit("p", 3)),
		lease(t, s, "set", driver.Exclusive("a"), driver.Shared("b"), driver.Permit("c", 1)),
	}
	w := enqueueFor(t, s, "w", driver.Shared("a"))
	forced := lease(t, s, "forced", driver.Shared("f"))
	exhaust(t, server)
	refusal(t, s, redisstore.ErrOutOfMemory)
	held(t, s, driver.Exclusive("x")) // being refused needs no memory
	kept := s.Complete(within(t, time.Second), recorded, driver.Record{Result: []byte("r")}, time.Second)
	wantIs(t, "Complete", kept, driver.ErrResultNotKept)
	for _, claims := range [][]driver.Claim{
		{driver.Shared("s")},
		{driver.Permit("p", 3)},
		{driver.Shared("free")},
		{driver.Permit("free", 1)},
		{driver.Exclusive("free"), driver.Exclusive("free2")},
		{driver.Shared("free"), driver.Shared("s")},
	} {
		_, err := s.Acquire(within(t, time.Second), claiming("o", claims...))
		check(t, errors.Is(err, redisstore.ErrOutOfMemory), "%v: want ErrOutOfMemory, got %v", claims, err)
	}
	n := server.Client().ZCard(bg, "{lock:s}:h").Val()
	check(t, n == 2, "a refused reader is among the %d holders", n)
	for i, err := range s.Renew(within(t, time.Second), grants) {
		check(t, err == nil, "Renew of %v: %v", grants[i].Claims, err)
	}
	wantIs(t, "ForceRelease", errOf(s.ForceRelease(within(t, time.Second), "f", "why")), nil)
	wantIs(t, "Renew", renew(t, s, forced), driver.ErrLeaseLost)
	for _, g := range grants {
		release(t, s, g)
	}
	g := w.GrantedIn(soon)
	wantNil(t, renew(t, s, g))
	release(t, s, g)
	nothingLeft(t, server)
}

// TestSideKeysOfAWrongType fail what needs them, and nothing runs unlocked.
func TestSideKeysOfAWrongType(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admin := server.Client()
	s := open(t, server.Client())
	for side, claim := range map[string]driver.Claim{
		"h": driver.Shared("k"), "i": driver.Permit("k", 2), "q": driver.Exclusive("k"), "s": driver.Exclusive("k"),
	} {
		admin.FlushAll(bg)
		g := lease(t, s, "o", claim)
		admin.Del(bg, "{lock:k}:"+side)
		admin.Set(bg, "{lock:k}:"+side, "x", 0)
		if claim.Mode != driver.ModeExclusive {
			_, err := s.Acquire(within(t, time.Second), claiming("n", claim))
			check(t, errors.Is(err, redisstore.ErrWrongType) && !errors.Is(err, driver.ErrUnavailable), "%s: want ErrWrongType, got %v", side, err)
		}
		// A set frees what it can.
		g.Owner, g.Claims, g.Token = "o", []driver.Claim{claim, driver.Exclusive("z")}, 0
		admin.Set(bg, "lock:z", "o:1763683200000000:0:1:", time.Minute)
		err := s.Release(within(t, time.Second), g)
		check(t, claim.Mode != driver.ModeExclusive || err == nil, "%s: Release: %v", side, err)
		check(t, claim.Mode == driver.ModeExclusive || errors.Is(err, driver.ErrLeaseLost), "%s: Release: want ErrLeaseLost, got %v", side, err)
		check(t, admin.Exists(bg, "lock:z").Val() == 0, "%s: the rest of the set is still locked", side)
	}
}
