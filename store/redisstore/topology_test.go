package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/store/redisstore"
)

// startCluster runs a cluster of one, which is enough to have keys of several
// slots in one script refused.
func startCluster(t testing.TB) (*redistest.Server, redis.UniversalClient) {
	t.Helper()
	server := redistest.StartCluster(t, 1)[0]
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{server.Addr()}})
	t.Cleanup(func() { _ = client.Close() })
	eventually(t, 5*time.Second, "the cluster is up", func() bool {
		return client.Set(context.Background(), "x", "y", time.Millisecond).Err() == nil
	})
	return server, client
}

// startRing spreads the keys over two servers.
func startRing(t testing.TB) (*redistest.Server, redis.UniversalClient) {
	t.Helper()
	a, b := redistest.Start(t), redistest.Start(t)
	client := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": a.Addr(), "b": b.Addr()}})
	t.Cleanup(func() { _ = client.Close() })
	return a, client
}

func TestOtherTopologies(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(testing.TB) (*redistest.Server, redis.UniversalClient){
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
