package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
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
	setUser(t, server, append([]string{"on >pw resetkeys resetchannels -@all"}, rules...)...)
	return server.Client(func(o *redis.Options) { o.Username, o.Password = "keyturn", "pw" })
}

// setUser changes the user keyturn of a server.
func setUser(t testing.TB, server *redistest.Server, rules ...string) {
	t.Helper()
	args := []any{"acl", "setuser", "keyturn"}
	for _, rule := range strings.Fields(strings.Join(rules, " ")) {
		args = append(args, rule)
	}
	if err := server.Client().Do(context.Background(), args...).Err(); err != nil {
		t.Fatal(err)
	}
}

// useEverything does all that a store does.
func useEverything(t *testing.T, a, b *redisstore.Store) {
	g := lock(t, a, "holder", "k", time.Minute)
	gone := enqueue(t, b, "gone", "k", time.Minute)
	w := enqueue(t, b, "w", "k", time.Minute)
	gone.cancel()
	gone.refused(soon)
	if err := renew(t, a, g); err != nil {
		t.Errorf("Renew: %v", err)
	}
	release(t, a, g)
	g = w.granted(soon)
	if err := b.Complete(within(t, soon), g, driver.Record{Result: []byte("r")}, time.Minute); err != nil {
		t.Errorf("Complete: %v", err)
	}
	if _, rec, err := a.Begin(within(t, soon), request("late", "k", time.Minute)); err != nil || rec == nil {
		t.Errorf("Begin: %v, %v", rec, err)
	}
	if newest, err := b.AdvanceVersion(within(t, soon), "k", 5, time.Minute); err != nil || newest != 5 {
		t.Errorf("AdvanceVersion: %d, %v", newest, err)
	}
	useModes(t, a, b)
}

// noneIsMissed checks that the user was refused nothing that is needed.
func noneIsMissed(t *testing.T, servers ...*redistest.Server) {
	t.Helper()
	for i, server := range servers {
		for _, what := range refusals(t, server) {
			// The client introduces itself, and the store looks for a setting: both
			// put up with a refusal.
			if what != "client|setinfo" && what != "client" && what != "info" && what != "config|get" {
				t.Errorf("the user may not use %q of server %d", what, i+1)
			}
		}
	}
}

// useModes does what is not exclusive.
func useModes(t *testing.T, a, b *redisstore.Store) {
	first, second := lease(t, a, "first", driver.Shared("s")), lease(t, b, "second", driver.Shared("s"))
	if err := errors.Join(renew(t, a, first), renew(t, b, second)); err != nil {
		t.Errorf("Renew: %v", err)
	}
	w := enqueueFor(t, b, "writer", driver.Exclusive("s"))
	release(t, a, first)
	release(t, b, second)
	release(t, b, w.granted(soon))
	set := lease(t, a, "set", driver.Permit("p1", 2), driver.Permit("p2", 1))
	w = enqueueFor(t, b, "another", driver.Permit("p1", 2), driver.Permit("p2", 1))
	release(t, a, set)
	release(t, b, w.granted(soon))
}

// inspectEverything does all that operators do, and returns what went wrong.
func inspectEverything(s *redisstore.Store) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var errs []error
	for _, c := range []driver.Claim{driver.Exclusive("x"), driver.Shared("s")} {
		_, err := s.Acquire(ctx, driver.Request{Owner: "o", Claims: []driver.Claim{c}, TTL: time.Minute})
		_, err2 := s.Inspect(ctx, c.Key)
		_, _, err3 := s.List(ctx, driver.Listing{Limit: 10, Records: true})
		_, err4 := s.ForceRelease(ctx, c.Key, "why")
		_, err5 := s.Forget(ctx, c.Key)
		errs = append(errs, err, err2, err3, err4, err5)
	}
	return errors.Join(errs...)
}

// TestViewerACL: who only looks needs no permission to write, and has none.
func TestViewerACL(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	ctx := context.Background()
	server := redistest.Start(t)
	a, b := open(t, server.Client()), open(t, server.Client())
	for i := range 20 {
		lease(t, a, fmt.Sprint("o", i), driver.Exclusive(fmt.Sprint("k", i)))
	}
	lease(t, a, "reader", driver.Shared("s"))
	enqueueFor(t, b, "waiter", driver.Exclusive("k1"))
	if err := a.Complete(ctx, lease(t, a, "once", driver.Exclusive("o")), driver.Record{Result: []byte("r")}, time.Minute); err != nil {
		t.Fatal(err)
	}
	look := func(rules ...string) error {
		s := open(t, as(t, server, append(rules, aclKeys)...))
		n := 0
		for cursor, first := "", true; first || cursor != ""; first = false {
			page, next, err := s.List(ctx, driver.Listing{Cursor: cursor, Limit: 100, Records: true})
			if err != nil {
				return err
			}
			n, cursor = n+len(page), next
		}
		info, err := s.Inspect(ctx, "k1")
		if err == nil && (n < 22 || len(info.Waiters) != 1) {
			err = fmt.Errorf("%d keys, %+v", n, info)
		}
		return err
	}
	if err := look(aclView); err != nil {
		t.Errorf("the user may not look: %v", err)
	}
	for _, what := range refusals(t, server) {
		// Without a message, nobody can tell at once that a waiter has died.
		if !strings.HasPrefix(what, "client") && what != "info" && what != "config|get" && what != "publish" {
			t.Errorf("the user may not use %q", what)
		}
	}
	for _, command := range strings.Fields(aclView) {
		server.Client().Do(ctx, "acl", "log", "reset")
		if _ = look(aclView, strings.Replace(command, "+", "-", 1)); !slices.Contains(refusals(t, server), strings.TrimPrefix(command, "+")) && command != "+evalsha" && command != "+eval" {
			t.Errorf("nothing misses %q", command)
		}
	}
	s := open(t, as(t, server, aclView, aclKeys))
	if _, err := s.ForceRelease(ctx, "k1", "why"); err == nil {
		t.Error("a viewer took a key away")
	}
	if h := inspect(t, a, "k1").Holders; len(h) != 1 || h[0].Owner != "o1" {
		t.Errorf("%+v", h)
	}
}

// refusals lists the commands, keys and channels that the server has refused.
func refusals(t testing.TB, server *redistest.Server) []string {
	t.Helper()
	log, err := server.Client().Do(context.Background(), "acl", "log").Slice()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, entry := range log {
		all = append(all, entry.(map[any]any)["object"].(string))
	}
	return all
}

// tryEverything has each of the store's scripts go as far as it gets.
func tryEverything(s *redisstore.Store) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	g, _ := s.Acquire(ctx, request("o", "k", time.Minute))
	wait := func(owner string) (leave func()) {
		ctx, cancel := context.WithCancel(ctx)
		inLine, done := make(chan struct{}, 8), make(chan struct{})
		go func() {
			defer close(done)
			req := request(owner, "k", time.Minute)
			req.Wait = true
			req.OnHeld = func(driver.HeldError) { inLine <- struct{}{} }
			_, _ = s.Acquire(ctx, req)
		}()
		select {
		case <-inLine:
		case <-done:
		}
		return func() { cancel(); <-done }
	}
	leaveFirst, leaveSecond := wait("w"), wait("x")
	leaveSecond()
	s.Renew(ctx, []driver.Grant{g})
	_ = s.Complete(ctx, g, driver.Record{}, time.Minute)
	leaveFirst()
	permits := driver.Request{Owner: "p", Claims: []driver.Claim{driver.Permit("p", 2)}, TTL: time.Minute}
	g, _ = s.Acquire(ctx, permits)
	s.Renew(ctx, []driver.Grant{g})
	permits.Owner = "q"
	g, _ = s.Acquire(ctx, permits)
	_ = s.Release(ctx, g)
	var group sync.WaitGroup
	for i := range 64 {
		group.Go(func() {
			g, _ := s.Acquire(ctx, request(fmt.Sprint("o", i), fmt.Sprint("k", i), time.Minute))
			_ = s.Release(ctx, g)
		})
	}
	group.Wait()
	return s.Close()
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
		for _, w := range []*waiter{enqueue(t, b, "w1", key, ttl), enqueue(t, c, "w2", key, ttl), enqueue(t, a, "w3", key, ttl)} {
			release(t, a, g)
			next := w.granted(soon)
			if next.Token <= g.Token {
				t.Errorf("token %d follows %d", next.Token, g.Token)
			}
			g = next
		}
	}
}

// TestACL: a user who may do what docs/operations.md says is refused nothing. Each of the commands is needed: without it,
// something is refused.
func TestACL(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	ctx := context.Background()
	for name, c := range map[string]struct {
		others, commands string
		use              func(*redisstore.Store) error
	}{
		"locks":     {aclMessages, aclCommands + " +publish +subscribe", tryEverything},
		"operators": {aclCommands + " " + aclMessages + " +info", aclInspect, inspectEverything},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			admin := server.Client()
			if err := c.use(open(t, as(t, server, aclKeys, aclChannels, c.others, c.commands))); err != nil {
				t.Errorf("the user may not: %v", err)
			}
			noneIsMissed(t, server)
			for _, command := range strings.Fields(c.commands) {
				admin.Do(ctx, "acl", "log", "reset")
				admin.FlushAll(ctx)
				admin.ScriptFlush(ctx)
				s := open(t, as(t, server, aclKeys, aclChannels, c.others, c.commands, strings.Replace(command, "+", "-", 1)))
				_ = c.use(s)
				if !slices.Contains(refusals(t, server), strings.TrimPrefix(command, "+")) {
					t.Errorf("nothing misses %q", command)
				}
			}
		})
	}
}
