package embedtest

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/etcdtest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/storetest"
)

// TestTokenEnds: the client of etcd asks for the watches of all waiters on one stream. When the user's
// token has ended, etcd refuses further watches on that stream. A waiter must not ask without end
// instead, and is told of its turn all the same.
func TestTokenEnds(t *testing.T) {
	t.Parallel()
	servertest.Long(t)
	addr := start(t, func(c *embed.Config) { c.AuthTokenTTL = 1 }).addr
	etcdtest.Protect(t, addr)
	url := "program:secret@" + addr + "?waiter_lease=1m"
	a, b := open(t, url), open(t, url)
	h := storetest.Hold(t, a, storetest.Request("k", 4*time.Minute))
	var asked atomic.Int64
	granted := make(chan driver.Grant)
	wait := func(owner string) {
		req := storetest.Request("k", 4*time.Minute)
		req.Wait, req.OnHeld = true, func(driver.HeldError) { asked.Add(1) }
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			g, err := b.Acquire(ctx, req)
			switch {
			case err == nil:
				granted <- g
			case ctx.Err() == nil:
				t.Errorf("%s: %v", owner, err)
			}
		}()
		t.Cleanup(func() { cancel(); <-done })
	}
	wait("first")
	time.Sleep(2500 * time.Millisecond) // the token of the stream ends meanwhile
	wait("second")
	time.Sleep(time.Second)
	if n := asked.Load(); n > 10 {
		t.Errorf("two waiters have asked %d times", n)
	}
	must(t, a.Release(t.Context(), h))
	for range 2 {
		select {
		case g := <-granted:
			if err := b.Release(t.Context(), g); err != nil {
				t.Error(err)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("a waiter was not told of its turn")
		}
	}
}
