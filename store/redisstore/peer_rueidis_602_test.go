package redisstore_test

import (
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/redistest"
)

// TestIdleWaiterIsQuiet is about rueidis#602, a waiter that spun.
func TestIdleWaiterIsQuiet(t *testing.T) {
	long(t)
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server.Client()) // as it is by default
	lock(t, s, "holder", "k", time.Minute)
	enqueue(t, s, "w", "k", time.Minute)
	const watch = 4500 * time.Millisecond
	before, messages := calls(t, server), server.Commands(t)["publish"]
	time.Sleep(watch)
	n := calls(t, server) - before
	if n > 3 {
		t.Errorf("an idle waiter sent %d requests in %v", n, watch)
	}
	// Its process sends itself one message per second.
	if n := server.Commands(t)["publish"] - messages; n > 5 {
		t.Errorf("the process of an idle waiter sent %d messages in %v", n, watch)
	}
	if n < 1 {
		t.Errorf("an idle waiter gave no sign of life in %v, and counts as dead after 6 s", watch)
	}
}
