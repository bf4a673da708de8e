package redisstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/store/redisstore"
)

// TestIdleWaiterUnderFlushAll is about rueidis#372: FLUSHALL in a loop kept its
// waiters busy. Here, the lock is gone and the waiter has it.
func TestIdleWaiterUnderFlushAll(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server.Client(), redisstore.WithWaiterLease(600*time.Millisecond))
	admin := server.Client()
	lock(t, s, "holder", "k", time.Minute)
	w := enqueue(t, s, "w", "k", time.Minute)
	before := calls(t, server)
	for range 50 {
		admin.FlushAll(context.Background())
	}
	w.granted(soon)
	if n := calls(t, server) - before; n > 3 {
		t.Errorf("%d requests for one grant", n)
	}
}
