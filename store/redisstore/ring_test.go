//go:build unix

package redisstore_test

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/servertest"
)

// TestRing: go-redis moves the keys of a server that does not answer to the others, although its locks
// stay behind. With the setting of docs/operations.md they wait for their server.
func TestRing(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	for name, c := range map[string]struct {
		heartbeat time.Duration // how often it asks each server
		moves     bool
	}{
		"a server may leave": {100 * time.Millisecond, true}, // otherwise the setting would do nothing
		"no server leaves":   {1000 * time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := within(t, time.Minute)
			servers, ring := startRing(t, func(o *redis.RingOptions) {
				o.HeartbeatFrequency, o.ReadTimeout, o.MaxRetries = c.heartbeat, time.Second, -1
			})
			acquire(t, engine(t, open(t, ring)), "k")
			silent := servers[0]
			if silent.Client().DBSize(ctx).Val() == 0 {
				silent = servers[1]
			}
			silent.Pause()
			eventually(t, 10*time.Second, "the server has left the ring, if it may", func() bool { return !c.moves || ring.Len() == 1 })
			next := engine(t, open(t, ring))
			for range 5 {
				_, err := next.Acquire(ctx, "k", core.WithMaxWait(200*time.Millisecond))
				if c.moves && err == nil {
					return
				}
				if !c.moves && !errors.Is(err, core.ErrUnavailable) {
					t.Fatalf("a key of a server that is away: %v", err)
				}
				time.Sleep(200 * time.Millisecond) // longer than three heartbeats in all
			}
			check(t, !c.moves, "the key did not move")
		})
	}
}
