package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/store/redisstore"
)

// startCluster runs a cluster of three masters.
func startCluster(t testing.TB) ([]*redistest.Server, redis.UniversalClient) {
	t.Helper()
	servers := redistest.StartCluster(t, 3)
	var addrs []string
	for _, server := range servers {
		addrs = append(addrs, server.Addr())
	}
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
	t.Cleanup(func() { _ = client.Close() })
	eventually(t, 5*time.Second, "the cluster is up", func() bool {
		return client.Set(context.Background(), "x", "y", time.Millisecond).Err() == nil
	})
	return servers, client
}

// startRing spreads the keys over two servers.
func startRing(t testing.TB) ([]*redistest.Server, redis.UniversalClient) {
	t.Helper()
	a, b := redistest.Start(t), redistest.Start(t)
	client := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": a.Addr(), "b": b.Addr()}})
	t.Cleanup(func() { _ = client.Close() })
	return []*redistest.Server{a, b}, client
}

// TestMovedSlot: a request that goes directly to the server that had the slot is told
// to ask another one, and does.
func TestMovedSlot(t *testing.T) {
	t.Parallel()
	servers, client := startCluster(t)
	s := open(t, client)
	ctx := within(t, 10*time.Second)
	for round := range 6 { // each of the servers has been asked directly by then
		key := fmt.Sprint("k", round)
		slot := client.Do(ctx, "cluster", "keyslot", "lock:"+key).Val()
		release(t, s, lock(t, s, "before", key, time.Minute))
		again := lock(t, s, "again", key, time.Minute)
		from := slices.IndexFunc(servers, func(s *redistest.Server) bool { return s.Client().Exists(ctx, "lock:"+key).Val() == 1 })
		release(t, s, again)
		to := servers[round%3].Client().Do(ctx, "cluster", "myid").Val()
		if from != round%3 {
			// A server that imports a slot gets a new epoch with it. Without one, late gossip of
			// the old owner takes the slot back at the new owner, and both redirect for ever.
			owner := servers[from].Client().Do(ctx, "cluster", "myid").Val()
			if err := servers[round%3].Client().Do(ctx, "cluster", "setslot", slot, "importing", owner).Err(); err != nil {
				t.Fatal(err)
			}
		}
		for i := range servers {
			server := servers[(round+i)%3] // the new owner first
			// The counter stays behind: without it the clock sees to the order.
			admin := server.Client()
			admin.Del(ctx, "{lock:"+key+"}:t")
			if err := admin.Do(ctx, "cluster", "setslot", slot, "node", to).Err(); err != nil {
				t.Fatal(err)
			}
		}
		g := lock(t, s, "after", key, time.Minute)
		if held := servers[round%3].Client().Get(ctx, "lock:"+key).Val(); !strings.HasPrefix(held, "after:") {
			t.Errorf("%s is on another server: %q", key, held)
		}
		release(t, s, g)
	}
}

// TestMovingSlot: while the keys of a slot move, a lock may be on one server and its
// counter on another. Requests wait until that is over, and a lock that has moved is
// not free.
func TestMovingSlot(t *testing.T) {
	t.Parallel()
	servers, client := startCluster(t)
	s := open(t, client)
	ctx := within(t, 10*time.Second)
	const key, name, counter = "k", "lock:k", "{lock:k}:t"
	old := lock(t, s, "old", key, time.Minute)
	slot := client.Do(ctx, "cluster", "keyslot", name).Val()
	from := slices.IndexFunc(servers, func(s *redistest.Server) bool { return s.Client().Exists(ctx, name).Val() == 1 })
	to := (from + 1) % len(servers)
	ids := make([]any, len(servers))
	for i, server := range servers {
		ids[i] = server.Client().Do(ctx, "cluster", "myid").Val()
	}
	run := func(server int, args ...any) {
		t.Helper()
		if err := servers[server].Client().Do(ctx, args...).Err(); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
	}
	move := func(key string) {
		t.Helper()
		host, port, _ := net.SplitHostPort(servers[to].Addr())
		run(from, "migrate", host, port, key, 0, 1000)
	}
	run(to, "cluster", "setslot", slot, "importing", ids[from])
	run(from, "cluster", "setslot", slot, "migrating", ids[to])
	move(name)
	answers := make(chan error, 2)
	go func() { answers <- s.Release(ctx, old) }()
	go func() {
		_, err := s.Acquire(ctx, request("fresh", key, time.Minute))
		var held *driver.HeldError
		if errors.As(err, &held) {
			err = nil
		}
		answers <- err
	}()
	select {
	case err := <-answers:
		t.Fatalf("answered in the middle of it: %v", err)
	case <-time.After(100 * time.Millisecond): // for some attempts
	}
	move(counter)
	run(to, "cluster", "setslot", slot, "node", ids[to])
	run(from, "cluster", "setslot", slot, "node", ids[to])
	for range 2 {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
}

func TestOtherTopologies(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(testing.TB) ([]*redistest.Server, redis.UniversalClient){
		"cluster": startCluster,
		"ring":    startRing,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, client := start(t)
			quick := redisstore.WithWaiterLease(1500 * time.Millisecond)
			a, b := open(t, client, quick), open(t, client, quick)
			var grants []driver.Grant
			for i := range 20 {
				grants = append(grants, lock(t, a, "holder", fmt.Sprint("k", i), time.Minute))
			}
			for i, err := range a.Renew(within(t, time.Second), grants) {
				if err != nil {
					t.Errorf("Renew of %d: %v", i, err)
				}
			}
			for i, g := range grants[:2] {
				key := g.Claims[0].Key
				first, second := enqueue(t, b, "first", key, time.Minute), enqueue(t, a, "second", key, time.Minute)
				release(t, a, g)
				next := first.granted(soon)
				if next.Token <= g.Token {
					t.Errorf("key %d: token %d follows %d", i, next.Token, g.Token)
				}
				if err := b.Complete(within(t, time.Second), next, driver.Record{Result: []byte("r")}, time.Minute); err != nil {
					t.Errorf("Complete: %v", err)
				}
				second.granted(soon)
				if _, rec, err := a.Begin(within(t, time.Second), request("late", key, time.Minute)); err != nil || rec == nil {
					t.Errorf("Begin: %v, %v", rec, err)
				}
				if ttl := client.PTTL(context.Background(), "{lock:"+key+"}:t").Val(); ttl < 55*time.Minute || ttl > time.Hour+time.Second {
					t.Errorf("the counter lives for %v", ttl)
				}
			}
			if err := a.Release(within(t, time.Second), grants[0]); !errors.Is(err, driver.ErrLeaseLost) {
				t.Errorf("want ErrLeaseLost, got %v", err)
			}
		})
	}
}
