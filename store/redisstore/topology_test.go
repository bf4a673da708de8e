package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core"
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
		release(t, s, lock(t, s, "again", key, time.Minute))
		to := servers[round%3].Client().Do(ctx, "cluster", "myid").Val()
		for _, server := range servers {
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
			var grants []core.Grant
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
				next := first.granted(2 * time.Second)
				if next.Token <= g.Token {
					t.Errorf("key %d: token %d follows %d", i, next.Token, g.Token)
				}
				if err := b.Complete(within(t, time.Second), next, core.Record{Result: []byte("r")}, time.Minute); err != nil {
					t.Errorf("Complete: %v", err)
				}
				second.granted(2 * time.Second)
				if _, rec, err := a.Begin(within(t, time.Second), request("late", key, time.Minute)); err != nil || rec == nil {
					t.Errorf("Begin: %v, %v", rec, err)
				}
				if ttl := client.PTTL(context.Background(), "{lock:"+key+"}:t").Val(); ttl <= 0 || ttl > 24*time.Hour {
					t.Errorf("the counter lives for %v", ttl)
				}
			}
			if err := a.Release(within(t, time.Second), grants[0]); !errors.Is(err, core.ErrLeaseLost) {
				t.Errorf("want ErrLeaseLost, got %v", err)
			}
		})
	}
}
