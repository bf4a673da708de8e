package redisstore_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
)

// TestHooksSeeEveryRequest: from go-redis 9.16 on, a client of WithTimeout has lost its hooks, and a user's tracing saw
// 2 of 20 requests. So each script and each message that the servers have run was seen by a hook of the caller's
// client; on a Cluster by those of its nodes, where go-redis' own instrumentation has them.
func TestHooksSeeEveryRequest(t *testing.T) {
	t.Parallel()
	checktest.Each(t, map[string]func(*testing.T, redis.Hook) ([]*redistest.Server, redis.UniversalClient){
		"single": func(t *testing.T, hook redis.Hook) ([]*redistest.Server, redis.UniversalClient) {
			server := redistest.Start(t)
			client := server.Client()
			client.AddHook(hook)
			return []*redistest.Server{server}, client
		},
		"Cluster": func(t *testing.T, hook redis.Hook) ([]*redistest.Server, redis.UniversalClient) {
			servertest.Long(t)
			nodes := redistest.StartCluster(t, 3)
			client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Addr()}})
			t.Cleanup(func() { _ = client.Close() })
			client.OnNewNode(func(c *redis.Client) { c.AddHook(hook) })
			return nodes, client
		},
	}, func(t *testing.T, start func(*testing.T, redis.Hook) ([]*redistest.Server, redis.UniversalClient)) {
		var scripts, messages atomic.Int64
		servers, client := start(t, redistest.OnCommand(func(cmd redis.Cmder) {
			switch cmd.Name() {
			case "eval", "evalsha":
				scripts.Add(1)
			case "publish":
				messages.Add(1)
			}
		}))
		s := open(t, client)
		for i := range 20 {
			release(t, s, lock(t, s, fmt.Sprint("owner", i), fmt.Sprint("k", i), time.Minute))
		}
		var all sync.WaitGroup
		for i := range 40 {
			all.Go(func() { release(t, s, lock(t, s, fmt.Sprint("many", i), fmt.Sprint("m", i), time.Minute)) })
		}
		all.Wait()
		holder := lock(t, s, "holder", "wanted", time.Minute)
		w := enqueue(t, s, "waiter", "wanted", time.Minute)
		release(t, s, holder)
		release(t, s, w.GrantedIn(5*time.Second))
		must(t, s.Close()) // so that nothing is under way when the requests are counted

		var ran int64
		for _, server := range servers {
			ran += calls(t, server)
		}
		check(t, scripts.Load() == ran && ran > 0, "the hook saw %d of %d scripts", scripts.Load(), ran)
		check(t, messages.Load() > 0, "the hook saw no message")
	})
}
