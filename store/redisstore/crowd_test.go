package redisstore_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

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
