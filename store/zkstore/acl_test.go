package zkstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/storetest"
	"github.com/keyturn/keyturn/store/zkstore"
)

// mine are credentials, and readable lets everybody else look.
var (
	mine     = zkstore.WithAuth("digest", []byte("me:secret"))
	readable = zkstore.WithACL(append(zk.DigestACL(zk.PermAll, "me", "secret"), zk.WorldACL(zk.PermRead)...))
)

// TestOnlyLooks: a console that may only read shows locks. What it must not do is refused.
func TestOnlyLooks(t *testing.T) {
	t.Parallel()
	z := newScene(t)
	s, looker := z.open(t, mine, readable), z.open(t)
	h := hold(t, s, request("k", time.Minute))
	hold(t, s, request("over", 200*time.Millisecond))
	enqueue(t, s, request("k", time.Minute))
	info, err := looker.Inspect(t.Context(), "k")
	if err != nil || len(info.Holders) != 1 || info.Holders[0].Owner != h.Owner || len(info.Waiters) != 1 {
		t.Errorf("Inspect: %+v, %v", info, err)
	}
	eventually(t, "a lease that is over is not shown", func() bool {
		info, err := looker.Inspect(t.Context(), "over")
		must(t, err)
		return len(info.Holders) == 0
	})
	if page, _, err := looker.List(t.Context(), driver.Listing{Limit: 10, Records: true}); err != nil || len(page) != 1 {
		t.Errorf("List: %+v, %v", page, err)
	}
	_, err = looker.ForceRelease(t.Context(), "k", "for the test")
	storetest.IsRefused(t, err)
	_, err = looker.Acquire(t.Context(), request("other", time.Minute))
	storetest.IsRefused(t, err)
}

// TestACL: what a store with credentials makes is for them alone. Another client's request is refused
// by the servers, which is no outage that may pass.
func TestACL(t *testing.T) {
	t.Parallel()
	z := newScene(t)
	network := servertest.NewProxy(t, z.addr)
	s := z.openAt(t, network.Addr(), mine)
	g := hold(t, s, request("k", time.Minute))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := zkstore.New(ctx, []string{z.addr}, silent, zkstore.WithRoot(z.root), zkstore.WithSession(session))
	storetest.IsRefused(t, err)
	// The credentials are sent again on each connection.
	network.Cut()
	network.Heal()
	release(t, s, g)
	release(t, z.open(t, mine), hold(t, s, request("k", time.Minute)))
}
