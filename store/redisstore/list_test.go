package redisstore_test

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
)

// trips counts the round trips of a client: a pipeline is one.
type trips struct{ commands, pipelines atomic.Int64 }

func (c *trips) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (c *trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.commands.Add(1)
		return next(ctx, cmd)
	}
}

func (c *trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.pipelines.Add(1)
		return next(ctx, cmds)
	}
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
	eng, err := core.New(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close(context.Background()) })
	seen := new(trips)
	err = client.ForEachMaster(context.Background(), func(_ context.Context, node *redis.Client) error {
		node.AddHook(seen)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, err := range eng.List(context.Background(), "") {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	// A page has about 100 keys: a SCAN or two, and a pipeline, or two where it goes on at the next master.
	if all := seen.commands.Load() + seen.pipelines.Load(); n != keys || all > keys/10 {
		t.Errorf("%d keys in %d commands and %d pipelines", n, seen.commands.Load(), seen.pipelines.Load())
	}
}

// The list of the keys that are held read all records of Once, only to leave them out: 38 s for a million.
func TestRecordsAreNotReadForAListOfLocks(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server.Client())
	const records = 300
	for i := range records {
		req := request(fmt.Sprint("o", i), fmt.Sprint("message:", i), time.Minute)
		g, _, err := s.Begin(within(t, time.Minute), req)
		if err == nil {
			err = s.Complete(within(t, time.Minute), g, driver.Record{Result: []byte("done")}, time.Hour)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	lock(t, s, "o", "held", time.Minute)
	eng, err := core.New(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close(context.Background()) })
	inspect(t, s, "held") // the server knows the script afterwards
	before := calls(t, server)
	n := 0
	for info, err := range eng.List(within(t, time.Minute), "") {
		if n++; err != nil || info.Key != "held" {
			t.Errorf("%+v, %v", info, err)
		}
	}
	if scripts := calls(t, server) - before; n != 1 || scripts != 1 {
		t.Errorf("%d keys, by %d scripts", n, scripts)
	}
	n = 0
	for range eng.ListAll(within(t, time.Minute), "") {
		n++
	}
	if n != records+1 {
		t.Errorf("%d keys with records", n)
	}
}
