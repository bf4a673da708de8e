package zkstore_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/servertest"
)

// TestReconnectsWithWatches breaks the connection of a process that waits, again and again, while it sends
// other requests. The client of ZooKeeper has a data race then, if an answer overtakes its request
// for the watches (the test is for the race detector).
func TestReconnectsWithWatches(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	z := newScene(t)
	proxy := servertest.NewProxy(t, z.addr)
	s, other := z.openAt(t, proxy.Addr()), z.open(t)
	held := hold(t, other, request("k", time.Minute))
	w := enqueue(t, s, request("k", time.Minute))
	var all sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	for range 4 {
		all.Go(func() {
			for ctx.Err() == nil {
				_, _ = s.Inspect(t.Context(), "k")
			}
		})
	}
	for range 30 {
		proxy.Cut()
		proxy.Heal()
		if _, err := s.Inspect(t.Context(), "k"); err != nil {
			t.Errorf("after the connection broke: %v", err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	stop()
	all.Wait()
	release(t, other, held)
	w.Granted()
}
