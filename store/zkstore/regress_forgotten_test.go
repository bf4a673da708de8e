package zkstore_test

import (
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/zktest"
)

// TestSameVersionsAgain: ZooKeeper has lost its data, and the version that a store remembers of a key comes
// again. What the store remembers must not let it in beside an owner that was granted the key since.
func TestSameVersionsAgain(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	server := zktest.Start(t)
	root := newRoot()
	s := open(t, server.Addr(), root)
	mustRelease(t, s, mustAcquire(t, s, request("k", time.Minute)))
	server.Kill()
	server.Forget(t)
	server.Restart(t)
	// Servers refuse clients that have seen later transactions.
	c := admin(t, server.Addr())
	made := 0
	eventually(t, "the server has as many transactions", func() bool {
		if _, err := c.Create("/filler-", nil, zk.FlagSequence, zk.WorldACL(zk.PermAll)); err == nil {
			made++ // after an error, such as the end of a session, it goes on
		}
		return made >= 100
	})
	other := open(t, server.Addr(), root)
	first := mustAcquire(t, other, request("k", time.Minute))
	w := enqueue(t, other, request("k", time.Minute))
	mustRelease(t, other, first)
	h := w.granted(t, 10*time.Second)
	if err := other.Renew(t.Context(), []driver.Grant{h})[0]; err != nil {
		t.Fatal(err)
	}
	if g, err := s.Acquire(t.Context(), request("k", time.Minute)); !errors.Is(err, driver.ErrHeld) {
		t.Errorf("tokens %d and %d hold the key, %v", h.Token, g.Token, err)
	}
}
