package redisstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/servertest"
)

// Each answer took 60 ms, which is longer than the short timeout of a request that its caller sends
// itself. The request failed with it, go-redis closed the connection, and the store sent the
// request again on a new one. So each request took 300 ms, and 20 requests took 38 connections.
func TestAServerFarAwayKeepsItsConnections(t *testing.T) {
	t.Parallel()
	const pairs = 8
	server := database(t)
	p := servertest.NewProxy(t, server.Addr())
	client := throughProxy(server, p)
	eng := newEngine(t, open(t, client))
	p.Delay(40 * time.Millisecond) // each way
	for range pairs {
		if err := eng.Do(context.Background(), "k", func(context.Context) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if made := client.PoolStats().Misses; made > pairs {
		t.Errorf("%d requests took %d connections", 2*pairs, made)
	}
}
