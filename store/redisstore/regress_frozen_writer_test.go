package redisstore_test

import (
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/servertest"
)

// TestBehindAFrozenWaiter: the first in one of the two queues may be the next to get the key, hang,
// and lose it again. Nobody sends a message then. The first in the other queue used to sleep on for
// a third of its waiter lease (2 s). Redis 6.2 also passes the key to a process that was killed, for
// as long as it has not noticed that the connection is closed.
func TestBehindAFrozenWaiter(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name          string
		holds         driver.Claim
		frozen, other driver.Claim
	}{
		{"a reader behind a writer", driver.Shared("k"), driver.Exclusive("k"), driver.Shared("k")},
		{"a writer behind a reader", driver.Exclusive("k"), driver.Shared("k"), driver.Exclusive("k")},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := database(t)
			network := servertest.NewProxy(t, server.Addr())
			s, hangs := open(t, server.Client()), open(t, throughProxy(server, network))
			h := lease(t, s, "holder", test.holds)
			frozen := wait(t, hangs, driver.Request{Owner: "frozen", Claims: []driver.Claim{test.frozen}, TTL: 200 * time.Millisecond})
			w := enqueueFor(t, s, "behind", test.other)
			network.Blackhole()
			release(t, s, h)
			w.granted(1200 * time.Millisecond) // 0.2 s, and what a busy machine needs; it was 2 s before
			network.Heal()
			frozen.cancel()
		})
	}
}
