package redisstore_test

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// TestTokensRise is about Redisson's fenced lock, whose counter can be reset or
// expire: whatever the server forgets, a later grant has the greater token.
func TestTokensRise(t *testing.T) {
	server, s := onServer(t)
	admin := server.Client()
	var last uint64
	grant := func(after string) {
		t.Helper()
		g := lock(t, s, "o", "k", time.Minute)
		check(t, g.Token > last, "after %s: token %d follows %d", after, g.Token, last)
		last = g.Token
		release(t, s, g)
	}
	grant("nothing")
	grant("a release")
	must(t, admin.FlushAll(bg).Err())
	grant("FLUSHALL")
	lock(t, s, "dead", "k", 20*time.Millisecond)
	eventually(t, soon, "the lease is over", func() bool { return admin.Exists(bg, "lock:k").Val() == 0 })
	grant("an expiry")
	server.Restart(t)
	grant("a restart without data")
	must(t, admin.Del(bg, "{lock:}:token").Err())
	grant("the loss of the counter")
	admin.Set(bg, "{lock:}:token", "junk", 0)
	grant("damage to the counter")
	behind := admin.Get(bg, "{lock:}:token").Val() // as on a replica that lagged, or after a restart of one that writes once a second
	grant("a release")
	admin.Set(bg, "{lock:}:token", behind, 0)
	grant("the loss of the last writes")

	// A clock that was set back by a day: the counter is ahead of it.
	last = uint64(time.Now().Add(24 * time.Hour).UnixMicro())
	admin.Set(bg, "{lock:}:token", last, 0)
	for range 3 {
		want := last + 1
		grant("a clock that was set back")
		check(t, last == want, "the token is %d, want %d", last, want)
	}
	stored := admin.Get(bg, "{lock:}:token").Val()
	check(t, stored == strconv.FormatUint(last, 10), "the counter says %q, want all the digits of %d", stored, last)
}

// TestCounterOutlivesItsToken on a Cluster, where each lock has its own, by an hour, on whatever way a grant takes.
// Where the clock was set back, here by two days, the counter stays until the clock has caught up: a day from the last
// grant would have been too early, and tokens would have gone back.
func TestCounterOutlivesItsToken(t *testing.T) {
	t.Parallel()
	client := sharedCluster(t)
	s := open(t, client)
	const back = 48 * time.Hour
	for name, grant := range map[string]func(key string) driver.Grant{
		"plain":  func(key string) driver.Grant { return lock(t, s, "o", key, time.Minute) },
		"shared": func(key string) driver.Grant { return lease(t, s, "o", driver.Shared(key)) },
		"once": func(key string) driver.Grant {
			g, _, err := begin(t, s, "o", key)
			must(t, err)
			return g
		},
		"passed": func(key string) driver.Grant {
			first := lock(t, s, "first", key, time.Minute)
			w := enqueue(t, s, "o", key, time.Minute)
			release(t, s, first)
			return w.GrantedIn(10 * time.Second)
		},
	} {
		for _, ahead := range []time.Duration{0, back} {
			key := fmt.Sprint(name, ahead)
			counter := "{lock:" + key + "}:t"
			last := time.Now().Add(ahead).UnixMicro()
			if ahead > 0 {
				must(t, client.Set(bg, counter, last, 24*time.Hour).Err())
			}
			g := grant(key)
			check(t, g.Token >= uint64(last) && (ahead == 0 || g.Token <= uint64(last)+10), "%s: token %d follows %d", key, g.Token, last)
			// The token says when the counter goes, so the test's own time cancels out.
			left := client.PTTL(bg, counter).Val()
			end, want := time.Now().Add(left), time.UnixMicro(int64(g.Token)).Add(time.Hour)
			off := end.Sub(want).Abs()
			check(t, left >= 0 && off <= 10*time.Second, "%s: the counter goes in %v, %v from an hour after its token", key, left, off)
		}
	}
}

// wants is a request for key that wants n tokens reserved for hand-offs.
func wants(owner, key string, n uint64) driver.Request {
	return driver.Request{Owner: owner, Claims: []driver.Claim{driver.Exclusive(key)}, TTL: time.Minute, HandOffs: n}
}

// TestTokensOfABatchAreApart: many grants of one moment, each with its own reserved tokens.
func TestTokensOfABatchAreApart(t *testing.T) {
	server, s := onServer(t)
	grants := make([]driver.Grant, many)
	crowd(t, server, func(i int) {
		g, err := s.Acquire(within(t, 10*time.Second), wants("o", fmt.Sprint("k", i), uint64(i%8)))
		wantNil(t, err)
		grants[i] = g
	})
	slices.SortFunc(grants, func(a, b driver.Grant) int { return cmp.Compare(a.Token, b.Token) })
	for i, g := range grants[1:] {
		check(t, g.Token > grants[i].Token+grants[i].HandOffs, "token %d follows %+v", g.Token, grants[i])
	}
}

// TestNothingIsReservedBehindTheClock that was set back: the tokens count on from the last,
// and run no further ahead of it than they are.
func TestNothingIsReservedBehindTheClock(t *testing.T) {
	server, s := onDatabase(t)
	ctx := within(t, 20*time.Second)
	last := uint64(time.Now().Add(time.Hour).UnixMicro())
	server.Client().Set(ctx, "{lock:}:token", last, 0)
	for i := range uint64(5) {
		g, err := s.Acquire(ctx, wants("o", "k", 1000))
		must(t, err)
		check(t, g.Token == last+1+i && g.HandOffs == 0, "token %d with %d reserved, after %d", g.Token, g.HandOffs, last+i)
		release(t, s, g)
	}
}

// TestTokenOfASetBesideReaders: a set over two slots of a Cluster held one key shared and waited for
// another. Meanwhile a reader got the first key. The set's token was that of its last key, from
// another counter, and could be the reader's: one microsecond on two masters. Random histories found
// it. Here the counters are set so that it happens each time.
func TestTokenOfASetBesideReaders(t *testing.T) {
	t.Parallel()
	client := sharedCluster(t)
	s := open(t, client)
	holder := lock(t, s, "holder", "set:b", time.Minute)
	set := enqueueFor(t, s, "set", driver.Shared("set:a"), driver.Exclusive("set:b"))
	eventually(t, 5*time.Second, "the set has its first key", func() bool {
		info, err := s.Inspect(within(t, 5*time.Second), "set:a")
		return err == nil && len(info.Holders) == 1
	})
	ahead := time.Now().Add(10 * time.Second).UnixMicro()
	for _, counter := range []string{"{lock:set:a}:t", "{lock:set:b}:t"} {
		must(t, client.Set(bg, counter, ahead, time.Minute).Err())
	}
	reader := lease(t, s, "reader", driver.Shared("set:a"))
	release(t, s, holder)
	g := set.GrantedIn(5 * time.Second)
	check(t, g.Token > reader.Token, "the set has token %d, and the reader got %d before", g.Token, reader.Token)
	wantIs(t, "the set's renewal", renew(t, s, g), nil)
	next := lease(t, s, "next", driver.Shared("set:a"))
	check(t, next.Token > g.Token, "token %d follows the set's %d", next.Token, g.Token)
	for _, g := range []driver.Grant{g, reader, next} {
		release(t, s, g)
	}
}
