package redisstore_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
)

// turnTime is how long each of the clients works, and how long it waits between its tries.
const turnTime = 2 * time.Millisecond

// startForeign has n plain SET NX clients take turns at key.
func startForeign(t testing.TB, server *redistest.Server, key string, n int) (grants *atomic.Int64, end func()) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	grants = new(atomic.Int64)
	var done sync.WaitGroup
	client := server.Client()
	for i := range n {
		done.Go(func() {
			for turn := 0; ctx.Err() == nil; turn++ {
				value := fmt.Sprintf("%s-%d-%d", uuid, i, turn)
				if client.SetNX(ctx, "lock:"+key, value, 10*time.Second).Val() {
					grants.Add(1)
					time.Sleep(turnTime)
					client.Eval(context.Background(), compareAndDelete, []string{"lock:" + key}, value)
				}
				time.Sleep(turnTime)
			}
		})
	}
	end = sync.OnceFunc(func() { stop(); done.Wait() })
	t.Cleanup(end)
	return grants, end
}

// TestLongForeignLock: one that is held for long costs few looks.
func TestLongForeignLock(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server.Client())
	cli(t, server, "OK", "SET", "lock:k", uuid)
	w := enqueue(t, s, "w", "k", time.Minute)
	behind := enqueue(t, s, "behind", "k", time.Minute)
	time.Sleep(4 * time.Second)
	before := calls(t, server)
	time.Sleep(time.Second)
	// Held for 4 s, so a look each 60 ms or so.
	if n := calls(t, server) - before; n > 40 {
		t.Errorf("%d looks within a second at a lock that has been held for four", n)
	}
	cli(t, server, "1", "DEL", "lock:k")
	release(t, s, w.granted(soon))
	behind.granted(soon)
}

// TestShareBesideForeignClients: plain clients send no word of their releases, and a
// waiter that looks as rarely as it does for its own kind never finds the lock free.
func TestShareBesideForeignClients(t *testing.T) {
	servertest.Long(t)
	server := redistest.Start(t)
	s := open(t, server.Client())
	const clients = 8
	foreign, end := startForeign(t, server, "k", clients)
	time.Sleep(500 * time.Millisecond)
	before, ours := foreign.Load(), int64(0)
	for began := time.Now(); time.Since(began) < 4*time.Second; time.Sleep(turnTime) {
		req := request(fmt.Sprint("ours", ours), "k", 10*time.Second)
		req.Wait = true
		g, err := s.Acquire(within(t, 10*time.Second), req)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(turnTime)
		release(t, s, g)
		ours++
	}
	theirs := (foreign.Load() - before) / clients
	end()
	if ours < theirs/4 || ours == 0 || theirs < ours/8 {
		t.Errorf("%d grants, and %d for each of %d foreign clients", ours, theirs, clients)
	}
}
