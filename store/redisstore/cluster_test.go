//go:build unix

package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
)

// startRing spreads the keys over two servers.
func startRing(t testing.TB, opts ...func(*redis.RingOptions)) ([]*redistest.Server, *redis.Ring) {
	t.Helper()
	a, b := redistest.Start(t), redistest.Start(t)
	o := &redis.RingOptions{Addrs: map[string]string{"a": a.Addr(), "b": b.Addr()}}
	for _, opt := range opts {
		opt(o)
	}
	client := redis.NewRing(o)
	t.Cleanup(func() { _ = client.Close() })
	return []*redistest.Server{a, b}, client
}

// TestMovingSlot: while the keys of a slot move, a lock may be on one server and its counter on another. Requests wait
// until that is over, and a lock that has moved is not free. Nor is one whose counter has moved.
func TestMovingSlot(t *testing.T) {
	servertest.LongParallel(t)
	servers, client := startCluster(t)
	s := open(t, client)
	ctx := within(t, 10*time.Second)
	ids := make([]any, len(servers))
	for i, server := range servers {
		ids[i] = server.Client().Do(ctx, "cluster", "myid").Val()
	}
	end := func(g driver.Grant) error { return s.Release(ctx, g) }
	record := func(g driver.Grant) error { return s.Complete(ctx, g, driver.Record{}, time.Minute) }
	begin := func(ctx context.Context, req driver.Request) (driver.Grant, error) {
		g, _, err := s.Begin(ctx, req)
		return g, err
	}
	for _, c := range []struct {
		key           string
		first, second string // what moves
		end           func(driver.Grant) error
		ask           func(context.Context, driver.Request) (driver.Grant, error)
	}{
		{"k", "lock:k", "{lock:k}:t", end, s.Acquire},
		{"once", "{lock:once}:t", "lock:once", record, begin},
	} {
		old := lock(t, s, "old", c.key, time.Minute)
		slot := client.Do(ctx, "cluster", "keyslot", c.first).Val()
		from := slices.IndexFunc(servers, func(s *redistest.Server) bool { return s.Client().Exists(ctx, c.first).Val() == 1 })
		to := (from + 1) % len(servers)
		host, port, _ := net.SplitHostPort(servers[to].Addr())
		move := func(key string) {
			t.Helper()
			must(t, servers[from].Client().Do(ctx, "migrate", host, port, key, 0, 1000).Err())
		}
		assign := func(server int, how string, id any) {
			t.Helper()
			must(t, servers[server].Client().Do(ctx, "cluster", "setslot", slot, how, id).Err())
		}
		assign(to, "importing", ids[from])
		assign(from, "migrating", ids[to])
		move(c.first)
		answers := make(chan error, 2)
		go func() { answers <- c.end(old) }()
		go func() {
			_, err := c.ask(ctx, request("fresh", c.key, time.Minute))
			var held *driver.HeldError
			if errors.As(err, &held) {
				err = nil
			}
			answers <- err
		}()
		select {
		case err := <-answers:
			t.Fatalf("%s: answered in the middle of it: %v", c.key, err)
		case <-time.After(100 * time.Millisecond): // for some attempts
		}
		move(c.second)
		assign(to, "node", ids[to])
		assign(from, "node", ids[to])
		wantNil(t, errors.Join(<-answers, <-answers))
	}
}

// Slots move while many ask: each is told where to ask by the server that it asked in a write with others, and does.
func TestCrowdFollowsMovedSlots(t *testing.T) {
	servertest.LongParallel(t)
	servers, client := startCluster(t)
	s := open(t, client)
	ctx := within(t, 20*time.Second)
	server := s.Describe().Partition
	var keys []string
	for i := 0; len(keys) < 48; i++ {
		key := fmt.Sprint("k", i)
		if server(key) == "" { // until the Cluster has answered
			release(t, s, lock(t, s, "first", key, time.Minute))
		}
		if server(key) == servers[0].Addr() {
			keys = append(keys, key)
		}
	}
	all := func(do func(key string)) {
		var group sync.WaitGroup
		for _, key := range keys {
			group.Go(func() { do(key) })
		}
		group.Wait()
	}
	all(func(key string) { release(t, s, lock(t, s, "before", key, time.Minute)) })
	to := servers[1].Client().Do(ctx, "cluster", "myid").Val()
	for _, key := range keys {
		slot := client.Do(ctx, "cluster", "keyslot", "lock:"+key).Val()
		for _, server := range servers {
			// The counter stays behind: without it the clock sees to the order.
			admin := server.Client()
			admin.Del(ctx, "{lock:"+key+"}:t")
			must(t, admin.Do(ctx, "cluster", "setslot", slot, "node", to).Err())
		}
	}
	admin := servers[1].Client()
	all(func(key string) {
		g := lock(t, s, "after", key, time.Minute)
		held := admin.Get(ctx, "lock:"+key).Val()
		check(t, strings.HasPrefix(held, "after:"), "%s is on another server: %q", key, held)
		release(t, s, g)
	})
}

// TestRing: go-redis moves the keys of a server that does not answer to the others, although its locks
// stay behind. With the setting of docs/operations.md they wait for their server.
func TestRing(t *testing.T) {
	servertest.LongParallel(t)
	type row struct {
		heartbeat time.Duration // how often it asks each server
		moves     bool
	}
	checktest.Each(t, map[string]row{
		"a server may leave": {100 * time.Millisecond, true}, // otherwise the setting would do nothing
		"no server leaves":   {1000 * time.Hour, false},
	}, func(t *testing.T, c row) {
		ctx := within(t, time.Minute)
		servers, ring := startRing(t, func(o *redis.RingOptions) {
			o.HeartbeatFrequency, o.ReadTimeout, o.MaxRetries = c.heartbeat, time.Second, -1
		})
		acquire(t, engine(t, open(t, ring)), "k")
		silent := servers[0]
		if silent.Client().DBSize(ctx).Val() == 0 {
			silent = servers[1]
		}
		silent.Pause()
		eventually(t, 10*time.Second, "the server has left the ring, if it may", func() bool { return !c.moves || ring.Len() == 1 })
		next := engine(t, open(t, ring))
		for range 5 {
			_, err := next.Acquire(ctx, "k", core.WithMaxWait(200*time.Millisecond))
			if c.moves && err == nil {
				return
			}
			require(t, c.moves || errors.Is(err, core.ErrUnavailable), "a key of a server that is away: %v", err)
			time.Sleep(200 * time.Millisecond) // longer than three heartbeats in all
		}
		check(t, !c.moves, "the key did not move")
	})
}
