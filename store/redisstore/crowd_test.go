package redisstore_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/internal/redistest"
)

// countedConn counts what is written to a connection, write by write.
type countedConn struct {
	net.Conn
	writes *atomic.Int64
}

func (c countedConn) Write(b []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(b)
}

// Requests for different slots can't share a script, but those for one master share a
// write, as soon as there are many of them.
func TestCrowdSharesWritesOnACluster(t *testing.T) {
	long(t)
	t.Parallel()
	const callers, rounds = 64, 20
	var addrs []string
	for _, server := range redistest.StartCluster(t, 3) {
		addrs = append(addrs, server.Addr())
	}
	var writes atomic.Int64
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: addrs, PoolSize: callers, MinIdleConns: callers,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			return countedConn{conn, &writes}, err
		},
	})
	t.Cleanup(func() { _ = client.Close() })
	s := open(t, client)
	var owners atomic.Int64
	pair := func(i int) {
		// An owner asks once, as the engine's do: a request that a slow machine has sent twice is undone
		// by its owner's name, for 25 s.
		owner := fmt.Sprint("o", owners.Add(1))
		release(t, s, lock(t, s, owner, fmt.Sprint("k", i), time.Minute))
	}
	all := func(do func(i int)) {
		var group sync.WaitGroup
		for i := range callers {
			group.Go(func() { do(i) })
		}
		group.Wait()
	}
	all(pair) // connections greet, and the servers learn the scripts
	before := writes.Load()
	all(func(i int) {
		for range rounds {
			pair(i)
		}
	})
	if n, requests := writes.Load()-before, int64(2*callers*rounds); n > requests*3/4 {
		t.Errorf("%d requests took %d writes", requests, n)
	}
}

// Slots move while many ask: each is told where to ask by the server that it asked in a
// write with others, and does.
func TestCrowdFollowsMovedSlots(t *testing.T) {
	long(t)
	t.Parallel()
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
			if err := admin.Do(ctx, "cluster", "setslot", slot, "node", to).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	admin := servers[1].Client()
	all(func(key string) {
		g := lock(t, s, "after", key, time.Minute)
		if held := admin.Get(ctx, "lock:"+key).Val(); !strings.HasPrefix(held, "after:") {
			t.Errorf("%s is on another server: %q", key, held)
		}
		release(t, s, g)
	})
}
