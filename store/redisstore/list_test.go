package redisstore_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
)

// trips counts the round trips of a client: a pipeline is one.
type trips struct {
	redistest.OnCommand
	n atomic.Int64
}

func (c *trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { c.n.Add(1); return next(ctx, cmd) }
}

func (c *trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { c.n.Add(1); return next(ctx, cmds) }
}

// TestListOfAClusterInFewRoundTrips: the keys of a Cluster are in different slots, so each needs a
// command of its own. Those of a page go in one round trip to each master.
func TestListOfAClusterInFewRoundTrips(t *testing.T) {
	t.Parallel()
	servertest.Long(t)
	const keys = 600
	_, client := startCluster(t)
	s := open(t, client, noPolling)
	for i := range keys {
		lock(t, s, "o", fmt.Sprint("user:", i), time.Hour)
	}
	eng := engine(t, s)
	seen := new(trips)
	must(t, client.ForEachMaster(bg, func(_ context.Context, node *redis.Client) error {
		node.AddHook(seen)
		return nil
	}))
	n := 0
	for _, err := range eng.List(bg, "") {
		must(t, err)
		n++
	}
	// A page has about 100 keys: a SCAN or two, and a pipeline, or two where it goes on at the next master.
	check(t, n == keys && seen.n.Load() <= keys/10, "%d keys in %d round trips", n, seen.n.Load())
}

// The list of the keys that are held read all records of Once, only to leave them out: 38 s for a million.
func TestRecordsAreNotReadForAListOfLocks(t *testing.T) {
	t.Parallel()
	server, s := storeOn(t, redistest.Start(t))
	const records = 300
	for i := range records {
		record(t, s, fmt.Sprint("o", i), fmt.Sprint("message:", i), "done")
	}
	lock(t, s, "o", "held", time.Minute)
	eng := engine(t, s)
	inspect(t, s, "held") // the server knows the script afterwards
	before := calls(t, server)
	n := 0
	for info, err := range eng.List(within(t, time.Minute), "") {
		n++
		check(t, err == nil && info.Key == "held", "%+v, %v", info, err)
	}
	scripts := calls(t, server) - before
	check(t, n == 1 && scripts == 1, "%d keys, by %d scripts", n, scripts)
	n = 0
	for range eng.ListAll(within(t, time.Minute), "") {
		n++
	}
	check(t, n == records+1, "%d keys with records", n)
}
