package redisstore_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/storetest"
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
	server, s := onDatabase(t)
	admin := server.Client()
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
	server, s := onDatabase(t)
	old := lease(t, s, "old", driver.Shared("k"))
	server.Client().Del(bg, "lock:k")
	lease(t, s, "new", driver.Shared("k"))
	wantIs(t, "Renew", renew(t, s, old), driver.ErrLeaseLost)
	wantIs(t, "Release", s.Release(within(t, time.Second), old), driver.ErrLeaseLost)
}

// TestOutOfMemory: nothing new in any mode, but what is held is kept, recorded, released and passed on.
func TestOutOfMemory(t *testing.T) {
	server, s := onServer(t, noPolling)
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
	wantIs(t, "ForceRelease", checktest.ErrorOf(s.ForceRelease(within(t, time.Second), "f", "why")), nil)
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
	server, s := onServer(t)
	admin := server.Client()
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

// TestSetStepsBack: a set waits for its last claim when somebody takes the first one by force. It waits for that one
// again, and not for both: a writer in line keeps readers out.
func TestSetStepsBack(t *testing.T) {
	server, s := onServer(t, noPolling)
	lease(t, s, "reader", driver.Shared("b"))
	set := claiming("set", driver.Exclusive("a"), driver.Exclusive("b"))
	set.TTL = 6 * time.Second // it asks three times as often
	storetest.Enqueue(t, s, set)
	next := enqueue(t, s, "next", "a", time.Minute)
	must(t, checktest.ErrorOf(s.ForceRelease(within(t, time.Second), "a", "why")))
	next.Granted()
	eventually(t, soon, "the set is in no line but that of its first claim", func() bool { return waiting(t, server, "b") == 0 })
	lease(t, s, "another", driver.Shared("b"))
}

// TestLargestSet is that of a template's bound: several scripts, one grant.
func TestLargestSet(t *testing.T) {
	servertest.LongParallel(t)
	server, s := storeOn(t, database(t))
	claims := make([]driver.Claim, 4096)
	for i := range claims {
		claims[i] = driver.Exclusive(fmt.Sprintf("member:%05d", i))
		if i%2 == 1 {
			claims[i] = driver.Shared(claims[i].Key)
		}
	}
	g := lease(t, s, "o", claims...)
	for _, key := range []string{claims[0].Key, claims[255].Key, claims[256].Key, claims[4095].Key} {
		h := inspect(t, s, key).Holders
		check(t, len(h) == 1 && h[0].Token == g.Token, "%+v", h)
	}
	wantNil(t, renew(t, s, g))
	wantEqual(t, "refused at", held(t, s, append([]driver.Claim{driver.Exclusive("a")}, claims[4000:]...)...).Key, claims[4000].Key)
	release(t, s, g)
	last := lease(t, s, "last", claims[4095])
	wantEqual(t, "refused at", held(t, s, append(claims[:4095:4095], driver.Exclusive(claims[4095].Key))...).Key, claims[4095].Key)
	release(t, s, last)
	nothingLeft(t, server)
}

// TestSetsTokenCountsForAllItsKeys: where every key has a counter of its own, that
// of the one that is ahead of the clock becomes that of all.
func TestSetsTokenCountsForAllItsKeys(t *testing.T) {
	t.Parallel()
	client := sharedCluster(t)
	s := open(t, client)
	ahead := time.Now().Add(time.Hour).UnixMicro()
	client.Set(bg, "{lock:sets:b}:t", ahead, time.Hour)
	set := lease(t, s, "o", driver.Exclusive("sets:a"), driver.Exclusive("sets:b"))
	check(t, set.Token > uint64(ahead), "token %d follows %d", set.Token, ahead)
	release(t, s, set)
	next := lease(t, s, "next", driver.Exclusive("sets:a"))
	check(t, next.Token > set.Token, "token %d follows %d", next.Token, set.Token)
}

// TestRefusedSetNamesTheFirstClaim: a set that does not wait in line passed over its first key,
// where there was room but others waited, and was refused at its second. So HeldError named the
// wrong key, and the process that kept a lease there was told to give it back. Each first request of
// a process was of this kind, also one that waited afterwards. Random programs found it.
func TestRefusedSetNamesTheFirstClaim(t *testing.T) {
	t.Parallel()
	s := open(t, database(t).Client())
	permit := lease(t, s, "permit", driver.Permit("a", 3))
	writer := enqueue(t, s, "writer", "a", time.Minute)
	h := lock(t, s, "holder", "b", time.Minute)
	set := []driver.Claim{driver.Permit("a", 2), driver.Exclusive("b")}
	e := held(t, s, set...)
	check(t, e.Key == "a" && e.Holder == "permit", "the set is refused at %q, by %q", e.Key, e.Holder)
	// Nobody waits at the key any more, so the set gets as far as its second claim.
	release(t, s, permit)
	release(t, s, writer.GrantedIn(5*time.Second))
	e = held(t, s, set...)
	check(t, e.Key == "b" && e.Holder == "holder", "the set is refused at %q, by %q", e.Key, e.Holder)
	release(t, s, h)
}
