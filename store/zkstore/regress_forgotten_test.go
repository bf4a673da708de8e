package zkstore_test

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/storetest"
	"github.com/keyturn/keyturn/internal/zktest"
)

// TestSameVersionsAgain: ZooKeeper has lost its data, and the version that a store remembers of a key comes
// again. What the store remembers must not let it in beside an owner that was granted the key since.
func TestSameVersionsAgain(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	server, root := zktest.Start(t), newRoot()
	s := open(t, server.Addr(), root)
	storetest.Use(t, s, "k")
	forget(t, server)
	// Servers refuse clients that have seen later transactions.
	c, made := admin(t, server.Addr()), 0
	eventually(t, "the server has as many transactions", func() bool {
		if _, err := c.Create("/filler-", nil, zk.FlagSequence, zk.WorldACL(zk.PermAll)); err == nil {
			made++ // after an error, such as the end of a session, it goes on
		}
		return made >= 100
	})
	other := open(t, server.Addr(), root)
	first := hold(t, other, request("k", time.Minute))
	w := enqueue(t, other, request("k", time.Minute))
	release(t, other, first)
	must(t, other.Renew(t.Context(), []driver.Grant{w.Granted()})[0])
	storetest.IsHeld(t, s, request("k", time.Minute))
}
