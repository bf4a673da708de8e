//go:build unix

package redisstore_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/redistest"
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
			servers, addrs := map[string]*redistest.Server{}, map[string]string{}
			for i := range 2 {
				s := redistest.Start(t)
				shard := fmt.Sprint("shard", i)
				servers[s.Addr()], addrs[shard] = s, s.Addr()
			}
			ring := redis.NewRing(&redis.RingOptions{
				Addrs: addrs, HeartbeatFrequency: c.heartbeat, ReadTimeout: time.Second, MaxRetries: -1,
			})
			t.Cleanup(func() { _ = ring.Close() })
			eng := engine(t, open(t, ring), core.WithTTL(30*time.Second))
			must(t, errOf(eng.Acquire(ctx, "k")))
			var silent *redistest.Server
			for _, s := range servers {
				if n, err := s.Client().DBSize(ctx).Result(); err != nil {
					t.Fatal(err)
				} else if n > 0 {
					silent = s
				}
			}
			if silent == nil {
				t.Fatal("no server has the lock")
			}
			silent.Pause()
			eventually(t, 10*time.Second, "the server has left the ring, if it may", func() bool { return !c.moves || ring.Len() == 1 })
			next := engine(t, open(t, ring), core.WithTTL(30*time.Second))
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
