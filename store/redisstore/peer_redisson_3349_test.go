package redisstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/redistest"
)

// TestNobodyWaitingCostsNoMessage is about redisson#3349 and #4216, too: pub/sub
// that every lock pays for.
func TestNobodyWaitingCostsNoMessage(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server.Client())
	for i := range 10 {
		release(t, s, lock(t, s, fmt.Sprint("o", i), fmt.Sprint("k", i), time.Minute))
	}
	// One message at the start is to find out whether it may send any.
	if c := server.Commands(t); c["publish"] > 1 || c["subscribe"] != 0 {
		t.Errorf("%d messages and %d subscriptions although nobody ever waited", c["publish"], c["subscribe"])
	}
	// And however many wait for however many keys, one connection is enough.
	for i := range 30 {
		key := fmt.Sprint("k", i)
		lock(t, s, "holder", key, time.Minute)
		enqueue(t, s, fmt.Sprint("w", i), key, time.Minute)
	}
	if n := subscribers(t, server); n != 1 {
		t.Errorf("one process listens on %d connections", n)
	}
}
