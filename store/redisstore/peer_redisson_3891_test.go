package redisstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/redistest"
)

// TestLostSubscription is about redisson#3891 and rueidis#653: a wake-up missed
// while the connection was down, and a sleep until the TTL.
func TestLostSubscription(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a := open(t, server.Client(), noPolling)
	b := open(t, server.Client(), noPolling)
	admin := server.Client()
	lock(t, a, "holder", "k", time.Minute)
	w := enqueue(t, b, "w", "k", time.Minute)
	// In one go, so that the release finds nobody listening.
	pipe := admin.TxPipeline()
	pipe.Do(context.Background(), "client", "kill", "type", "pubsub")
	pipe.Del(context.Background(), "lock:k")
	if _, err := pipe.Exec(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.granted(soon)
	// And the next one gets its message again.
	g := lock(t, a, "holder2", "k2", time.Minute)
	w = enqueue(t, b, "w2", "k2", time.Minute)
	release(t, a, g)
	w.granted(soon)
}
