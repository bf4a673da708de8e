package redisstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/servertest"
)

// TestLargestSet is that of a template's bound: several scripts, one grant.
func TestLargestSet(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
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
