package etcdstore_test

import (
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/etcdtest"
	"github.com/keyturn/keyturn/internal/storetest"
	"github.com/keyturn/keyturn/store/etcdstore"
	"github.com/keyturn/keyturn/store/etcdstore/internal/clienttest"
)

// TestAuth has one server, as the calls that protect it take a second of a processor.
func TestAuth(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	etcdtest.Protect(t, server.Addr())
	c := clienttest.As(t, "program", server.Addr())
	t.Run("permissions", func(t *testing.T) { permissions(t, c) })
	t.Run("roles change", func(t *testing.T) { rolesChange(t, c, clienttest.As(t, "root", server.Addr())) })
}

// permissions: a role for the prefix is all that the store needs, for everything that it does. It gets no further
// than that.
func permissions(t *testing.T, c *clientv3.Client) {
	a, b := open(t, c), open(t, c)
	h := hold(t, a, request("k", 10*time.Second))
	w := enqueue(t, b, request("k", 20*time.Second))
	must(t, a.Renew(t.Context(), []driver.Grant{h})[0])
	ended, err := b.ForceRelease(t.Context(), "k", "for the test")
	check(t, err == nil && len(ended) == 1, "ForceRelease: %v, %v", ended, err)
	loss := (*driver.LeaseLostError)(nil)
	err = a.Release(t.Context(), h)
	check(t, errors.As(err, &loss) && loss.Detail == "for the test", "Release after that: %v", err)
	must(t, b.Complete(t.Context(), w.Granted(), driver.Record{Result: []byte("done")}, time.Hour))
	must(t, checktest.ErrorOf(b.AdvanceVersion(t.Context(), "k", 7, time.Hour)))
	page, _, err := b.List(t.Context(), driver.Listing{Limit: 10, Records: true})
	check(t, err == nil && len(page) == 1 && page[0].Record != nil, "List: %+v, %v", page, err)

	_, err = open(t, c, etcdstore.WithPrefix("other/")).Acquire(t.Context(), request("k", 10*time.Second))
	storetest.IsRefused(t, err, `"program"`, `"other/"`, "permission denied")
}

// rolesChange: an administrator changes what users may do, while a program works.
func rolesChange(t *testing.T, c, admin *clientv3.Client) {
	s := open(t, c)
	for range 5 {
		h := hold(t, s, request("k", time.Minute))
		must(t, checktest.ErrorOf(admin.RoleGrantPermission(t.Context(), "locks", "x", "y", clientv3.PermissionType(clientv3.PermRead))))
		must(t, s.Renew(t.Context(), []driver.Grant{h})[0])
		must(t, checktest.ErrorOf(admin.RoleRevokePermission(t.Context(), "locks", "x", "y")))
		release(t, s, h)
	}
}
