package redisstore_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
)

// TestHooksSeeEveryRequest: from go-redis 9.16 on, a client of WithTimeout has lost its hooks, and a
// user's tracing saw 2 of 20 requests. So each script and each message that the servers have run was
// seen by a hook of the caller's client; on a Cluster by those of its nodes, where go-redis' own
// instrumentation has them.
func TestHooksSeeEveryRequest(t *testing.T) {
	t.Parallel()
	t.Run("single", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t)
		seen := new(onlooker)
		client := server.Client()
		client.AddHook(redistest.OnCommand(seen.saw))
		requests(t, client)
		equal(t, "client", seen, server)
	})
	t.Run("Cluster", func(t *testing.T) {
		servertest.Long(t)
		t.Parallel()
		nodes := redistest.StartCluster(t, 3)
		client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Addr()}})
		t.Cleanup(func() { _ = client.Close() })
		each := new(onlooker)
		client.OnNewNode(func(c *redis.Client) { c.AddHook(redistest.OnCommand(each.saw)) })
		before := ran(t, nodes...)
		requests(t, client)
		equal(t, "nodes", each, nodes...)
		if ran(t, nodes...) == before {
			t.Error("the Cluster has run nothing")
		}
	})
}

// requests takes and releases leases, alone and many at a time.
func requests(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	s := open(t, client)
	for i := range 20 {
		release(t, s, lock(t, s, fmt.Sprint("owner", i), fmt.Sprint("k", i), time.Minute))
	}
	var many sync.WaitGroup
	for i := range 40 {
		many.Go(func() { release(t, s, lock(t, s, fmt.Sprint("many", i), fmt.Sprint("m", i), time.Minute)) })
	}
	many.Wait()
	holder := lock(t, s, "holder", "wanted", time.Minute)
	w := enqueue(t, s, "waiter", "wanted", time.Minute)
	release(t, s, holder)
	release(t, s, w.granted(5*time.Second))
	if err := s.Close(); err != nil { // so that nothing is under way when the requests are counted
		t.Fatal(err)
	}
}

// ran returns how many scripts and messages the servers have run, and were sent by a client.
func ran(t *testing.T, servers ...*redistest.Server) (n int64) {
	t.Helper()
	for _, s := range servers {
		commands := s.Commands(t)
		n += commands["evalsha"] + commands["eval"]
	}
	return n
}

// equal compares what a hook has seen with what the servers have run.
func equal(t *testing.T, of string, seen *onlooker, servers ...*redistest.Server) {
	t.Helper()
	if want, got := ran(t, servers...), seen.scripts.Load(); got != want || got == 0 {
		t.Errorf("the hook of the %s saw %d of %d scripts", of, got, want)
	}
	if seen.messages.Load() == 0 {
		t.Errorf("the hook of the %s saw no message", of)
	}
}

// onlooker is a hook that counts.
type onlooker struct{ scripts, messages atomic.Int64 }

func (o *onlooker) saw(cmd redis.Cmder) {
	switch cmd.Name() {
	case "eval", "evalsha":
		o.scripts.Add(1)
	case "publish":
		o.messages.Add(1)
	}
}
