package etcdstore_test

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/storetest"
)

// TestOneUnreadableLease: the renewals of all other leases failed with it.
func TestOneUnreadableLease(t *testing.T) {
	t.Parallel()
	c := shared(t)
	s := open(t, c)
	grants := []driver.Grant{hold(t, s, request("a", time.Minute)), hold(t, s, request("b", time.Minute))}
	must(t, checktest.ErrorOf(c.Put(t.Context(), memberKey(t, "a", grants[0].Owner), "not JSON", clientv3.WithIgnoreLease())))
	errs := s.Renew(t.Context(), grants)
	storetest.IsForeign(t, errs[0])
	must(t, errs[1])
}

// TestRenewedInACrowd: a renewal that others were always quicker than said that it had renewed the lease.
func TestRenewedInACrowd(t *testing.T) {
	t.Parallel()
	c := shared(t)
	s := open(t, c)
	g := hold(t, s, request("k", 5*time.Second))
	name := memberKey(t, "k", g.Owner)
	value, _ := stored(t, c, "k", g.Owner)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for range 32 {
		go func() {
			for ctx.Err() == nil {
				_, _ = c.Put(ctx, name, value, clientv3.WithIgnoreLease())
			}
		}()
	}
	g.TTL = time.Minute
	checktest.Eventually(t, "a renewal gives up", func() bool {
		if err := s.Renew(t.Context(), []driver.Grant{g})[0]; err != nil {
			return true
		}
		_, id := stored(t, c, "k", g.Owner)
		left, err := c.TimeToLive(t.Context(), id)
		must(t, err)
		require(t, left.TTL >= 30, "it was renewed, and lasts for %d s", left.TTL)
		g.TTL += 10 * time.Second
		return false
	})
}
