package redisstore_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
)

// TestManyWaitersWithoutMessages: thousands of waiters that look for themselves have one
// budget, as their server has other work.
func TestManyWaitersWithoutMessages(t *testing.T) {
	servertest.Long(t)
	server := redistest.Start(t)
	s := open(t, as(t, server, aclKeys, aclCommands, "+info"), noPolling)
	const keys = 1_500 // which would look 15 000 times a second
	ctx, cancel := context.WithCancel(bg)
	admin := server.Client().Pipeline()
	for i := range keys {
		admin.Set(ctx, fmt.Sprint("lock:k", i), "holder:8000000000000000:0:1763683200000:60000:", time.Hour)
	}
	must(t, errOf(admin.Exec(ctx)))
	var all sync.WaitGroup
	t.Cleanup(func() { cancel(); all.Wait() })
	var queued atomic.Int64
	for i := range keys {
		all.Go(func() {
			req := request(fmt.Sprint("w", i), fmt.Sprint("k", i), time.Minute)
			req.Wait = true
			first := sync.OnceFunc(func() { queued.Add(1) })
			req.OnHeld = func(driver.HeldError) { first() }
			g, err := s.Acquire(ctx, req)
			check(t, err != nil, "granted %+v", g)
		})
	}
	eventually(t, 60*time.Second, "all are in line", func() bool { return queued.Load() == int64(keys) })
	time.Sleep(time.Second)                                     // for the looks that were due before the last one came
	looks := func() int64 { return server.Commands(t)["hset"] } // each renews a place in line
	before, began := looks(), time.Now()
	time.Sleep(3 * time.Second)
	n, took := looks()-before, time.Since(began)
	t.Logf("%d looks in %v", n, took)
	most := int64(2 * 1000 * took.Seconds())
	check(t, n <= most, "%d looks in %v, want %d at most", n, took, most)
	check(t, n >= 100, "%d looks in %v: nobody would come for its lock", n, took)
}

// subscribing is a client whose subscriptions take another way.
type subscribing struct {
	redis.UniversalClient
	messages redis.UniversalClient
}

func (s *subscribing) Subscribe(ctx context.Context, channels ...string) *redis.PubSub {
	return s.messages.Subscribe(ctx, channels...)
}
