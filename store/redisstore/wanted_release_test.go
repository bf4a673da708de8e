package redisstore_test

import (
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/redistest"
)

// TestReleaseOfAWantedLease: a server writes its answer to a release before the message to the waiter,
// unless it had something for the releaser already. So the release of a lease that others wait for
// leaves behind a PING, in the same write. Other releases do not pay for that.
func TestReleaseOfAWantedLease(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server.Client(), noPolling)
	pings := func() int64 { return server.Commands(t)["ping"] }
	first := lock(t, s, "first", "k", time.Minute)
	next := enqueue(t, s, "next", "k", time.Minute)
	before := pings()
	release(t, s, first)
	next.granted(10 * time.Second)
	if n := pings() - before; n != 0 || !next.grant.Contended {
		t.Fatalf("%d pings with the release of a lease that nobody waited for when it was granted; the next is contended: %v", n, next.grant.Contended)
	}
	release(t, s, next.grant)
	wanted := pings() // more than one if the machine is so slow that the request was sent again
	release(t, s, lock(t, s, "alone", "k", time.Minute))
	if n := pings() - wanted; wanted == before || n != 0 {
		t.Errorf("%d pings with the release of a lease that is wanted, want 1; %d with one that is not", wanted-before, n)
	}
}
