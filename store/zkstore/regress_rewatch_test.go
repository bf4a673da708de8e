package zkstore_test

import (
	"sync"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/zktest"
)

// TestReconnectsWithWatches breaks the connection of a process that waits, again and again, while it sends
// other requests. The client of ZooKeeper has a data race then, if an answer overtakes its request
// for the watches (the test is for the race detector).
func TestReconnectsWithWatches(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	server := zktest.Shared(t)
	root := newRoot()
	proxy := servertest.NewProxy(t, server.Addr())
	s := open(t, proxy.Addr(), root)
	other := open(t, server.Addr(), root)
	held := mustAcquire(t, other, request("k", time.Minute))
	w := enqueue(t, s, request("k", time.Minute))
	var all sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					_, _ = s.Inspect(t.Context(), "k")
				}
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
	close(stop)
	all.Wait()
	if err := other.Release(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	_ = w.granted(t, 10*time.Second)
}
