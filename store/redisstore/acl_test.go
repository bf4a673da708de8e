package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/storetest"
	"github.com/keyturn/keyturn/store/redisstore"
)

// The permissions that a user needs according to docs/operations.md.
const (
	aclKeys     = "~lock:* ~{lock:*"
	aclChannels = "&lock:inbox:*"
	aclCommands = "+eval +evalsha +time +get +getrange +mget +set +del +exists +pexpire +pexpireat +pttl " +
		"+hget +hset +hdel +hexists +lindex +lpos +llen +rpush +lrem " +
		"+zadd +zrem +zscore +zcount +zrevrange +zrangebyscore"
	aclMessages = "+publish +subscribe +pubsub|numsub +ping"
	aclView     = "+eval +evalsha +time +get +pttl +scan +hgetall +lrange +zrange +getrange +strlen"
	aclInspect  = "+scan +hgetall +hlen +lrange +zrange +strlen"
)

// as makes a client of a user who may do what rules say.
func as(t testing.TB, server *redistest.Server, rules ...string) *redis.Client {
	t.Helper()
	server.SetUser(t, append([]string{"on >pw resetkeys resetchannels -@all"}, rules...)...)
	return server.Client(func(o *redis.Options) { o.Username, o.Password = "keyturn", "pw" })
}

// useEverything does all that a store does.
func useEverything(t *testing.T, a, b *redisstore.Store) {
	g := lock(t, a, "holder", "k", time.Minute)
	gone := enqueue(t, b, "gone", "k", time.Minute)
	w := enqueue(t, b, "w", "k", time.Minute)
	gone.Cancel()
	gone.Refused()
	wantIs(t, "Renew", renew(t, a, g), nil)
	release(t, a, g)
	g = w.GrantedIn(soon)
	wantIs(t, "Complete", b.Complete(within(t, soon), g, driver.Record{Result: []byte("r")}, time.Minute), nil)
	_, rec, err := a.Begin(within(t, soon), request("late", "k", time.Minute))
	check(t, err == nil && rec != nil, "Begin: %v, %v", rec, err)
	newest, err := b.AdvanceVersion(within(t, soon), "k", 5, time.Minute)
	check(t, err == nil && newest == 5, "AdvanceVersion: %d, %v", newest, err)
	useModes(t, a, b)
}

// noneIsMissed checks that the user was refused nothing that is needed.
func noneIsMissed(t *testing.T, servers ...*redistest.Server) {
	t.Helper()
	for i, server := range servers {
		missed := refusals(t, server)
		check(t, len(missed) == 0, "the user may not use %q of server %d", missed, i+1)
	}
}

// useModes does what is not exclusive.
func useModes(t *testing.T, a, b *redisstore.Store) {
	first, second := lease(t, a, "first", driver.Shared("s")), lease(t, b, "second", driver.Shared("s"))
	wantIs(t, "Renew", errors.Join(renew(t, a, first), renew(t, b, second)), nil)
	w := enqueueFor(t, b, "writer", driver.Exclusive("s"))
	release(t, a, first)
	release(t, b, second)
	release(t, b, w.GrantedIn(soon))
	set := lease(t, a, "set", driver.Permit("p1", 2), driver.Permit("p2", 1))
	w = enqueueFor(t, b, "another", driver.Permit("p1", 2), driver.Permit("p2", 1))
	release(t, a, set)
	release(t, b, w.GrantedIn(soon))
}

// inspectEverything does all that operators do, and returns what went wrong.
func inspectEverything(s *redisstore.Store) error {
	ctx, cancel := context.WithTimeout(bg, 10*time.Second)
	defer cancel()
	var errs []error
	for _, c := range []driver.Claim{driver.Exclusive("x"), driver.Shared("s")} {
		_, _, err := s.List(ctx, driver.Listing{Limit: 10, Records: true})
		errs = append(errs, err, checktest.ErrorOf(s.Acquire(ctx, claiming("o", c))), checktest.ErrorOf(s.Inspect(ctx, c.Key)),
			checktest.ErrorOf(s.ForceRelease(ctx, c.Key, "why")), checktest.ErrorOf(s.Forget(ctx, c.Key)))
	}
	return errors.Join(errs...)
}

// look does all that viewers do.
func look(s *redisstore.Store) error {
	n := 0
	for cursor, first := "", true; first || cursor != ""; first = false {
		page, next, err := s.List(bg, driver.Listing{Cursor: cursor, Limit: 100, Records: true})
		if err != nil {
			return err
		}
		n, cursor = n+len(page), next
	}
	info, err := s.Inspect(bg, "k1")
	if err == nil && (n < 22 || len(info.Waiters) != 1) {
		err = fmt.Errorf("%d keys, %+v", n, info)
	}
	return err
}

// TestACLOfOperators: a user who may do what docs/operations.md says is refused nothing. Each of the commands is needed:
// without it, something is refused. A user that only looks has no permission to write. TestCheck has the commands of holders.
func TestACLOfOperators(t *testing.T) {
	servertest.LongParallel(t)
	for name, c := range map[string]struct {
		others, commands string
		use              func(*redisstore.Store) error
		missed           []string
	}{
		"operators": {aclChannels + " " + aclCommands + " " + aclMessages + " +info", aclInspect, inspectEverything, nil},
		"viewers":   {"", aclView, look, []string{"publish"}}, // without a message, nobody can tell at once that a waiter has died
	} {
		t.Run(name, func(t *testing.T) {
			server, a := onServer(t)
			b := open(t, server.Client())
			for i := range 20 {
				lease(t, a, fmt.Sprint("o", i), driver.Exclusive(fmt.Sprint("k", i)))
			}
			lease(t, a, "reader", driver.Shared("r"))
			enqueueFor(t, b, "waiter", driver.Exclusive("k1"))
			must(t, a.Complete(t.Context(), lease(t, a, "once", driver.Exclusive("o")), driver.Record{Result: []byte("r")}, time.Minute))
			user := func(rules string) *redisstore.Store {
				return open(t, as(t, server, aclKeys, c.others, c.commands, rules))
			}

			wantIs(t, "the user may not", c.use(user("")), nil)
			missed := slices.Compact(refusals(t, server))
			check(t, slices.Equal(missed, c.missed), "the user may not use %q", missed)
			for _, command := range strings.Fields(c.commands) {
				server.Client().Do(t.Context(), "acl", "log", "reset")
				server.Client().ScriptFlush(t.Context())
				_ = c.use(user(strings.Replace(command, "+", "-", 1)))
				needed := slices.Contains(refusals(t, server), command[1:])
				check(t, needed || strings.HasPrefix(command, "+eval"), "nothing misses %q", command) // one does for the other
			}
			if name == "viewers" {
				_, err := user("").ForceRelease(t.Context(), "k1", "why")
				h := inspect(t, a, "k1").Holders
				check(t, err != nil && len(h) == 1 && h[0].Owner == "o1", "a viewer took a key away: %v, %+v", err, h)
			}
		})
	}
}

// refusals lists the commands, keys and channels that the server has refused. The client introduces itself, and the store
// looks for a setting: both put up with a refusal.
func refusals(t testing.TB, server *redistest.Server) []string {
	t.Helper()
	log, err := server.Client().Do(bg, "acl", "log").Slice()
	must(t, err)
	var all []string
	for _, entry := range log {
		what := entry.(map[any]any)["object"].(string)
		if !slices.Contains([]string{"client", "client|setinfo", "info", "config|get"}, what) {
			all = append(all, what)
		}
	}
	return all
}

// TestWithoutPubSub: a user who may not send or get messages still gets turns, in order; only later. The lock is kept for
// a waiter no longer than its TTL, so it has to look more often than its place in line asks for.
func TestWithoutPubSub(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := as(t, server, aclKeys, aclCommands, "+info")
	for _, ttl := range []time.Duration{time.Minute, 500 * time.Millisecond} {
		key := ttl.String()
		a, b, c := open(t, client, quickLooks), open(t, client, quickLooks), open(t, client)
		g := lock(t, a, "holder", key, time.Minute)
		for _, w := range []*storetest.Waiting{enqueue(t, b, "w1", key, ttl), enqueue(t, c, "w2", key, ttl), enqueue(t, a, "w3", key, ttl)} {
			release(t, a, g)
			next := w.GrantedIn(soon)
			check(t, next.Token > g.Token, "token %d follows %d", next.Token, g.Token)
			g = next
		}
	}
}
