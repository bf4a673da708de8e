package etcdstore_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/etcdtest"
	"github.com/keyturn/keyturn/internal/storetest"
	"github.com/keyturn/keyturn/store/etcdstore"
	"github.com/keyturn/keyturn/store/etcdstore/internal/clienttest"
)

func TestMain(m *testing.M) {
	// Nearly all that these tests do is to wait for leases to end.
	flag.Parse()
	_ = flag.Set("test.parallel", "10")
	goleak.VerifyTestMain(etcdtest.Main(m))
}

var (
	must    = checktest.Must
	request = storetest.Request
	hold    = storetest.Hold
	release = storetest.Release
	enqueue = storetest.Enqueue
	check   = checktest.That
	require = checktest.Require
	wantIs  = checktest.WantIs
)

// silent is for stores whose server is broken on purpose.
var silent = etcdstore.WithLogger(slog.New(slog.DiscardHandler))

// shared is a client of the server that the tests share. What the test leaves behind in its stores goes with it,
// so it can run once more.
func shared(t testing.TB) *clientv3.Client {
	t.Helper()
	c := clienttest.New(t, etcdtest.Shared(t).Addr())
	t.Cleanup(func() { _, _ = c.Delete(context.Background(), prefix(t), clientv3.WithPrefix()) })
	return c
}

// prefix keeps the keys of a test apart from those of the others.
func prefix(t testing.TB) string { return etcdstore.DefaultPrefix + t.Name() + "/" }

// open makes a store that the test closes.
func open(t testing.TB, c *clientv3.Client, opts ...etcdstore.Option) *etcdstore.Store {
	t.Helper()
	s, err := etcdstore.New(t.Context(), c, append([]etcdstore.Option{silent, etcdstore.WithPrefix(prefix(t))}, opts...)...)
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// on makes a store with a client of its own of these members.
func on(t testing.TB, members ...*etcdtest.Server) *etcdstore.Store {
	t.Helper()
	return open(t, clienttest.New(t, addrs(members)...))
}

func addrs(members []*etcdtest.Server) (all []string) {
	for _, m := range members {
		all = append(all, m.Addr())
	}
	return all
}

func leaderOf(t testing.TB, members []*etcdtest.Server) *etcdtest.Server {
	t.Helper()
	for _, m := range members {
		r, err := clienttest.New(t, m.Addr()).Status(t.Context(), m.Addr())
		if err == nil && r.Leader == r.Header.MemberId {
			return m
		}
	}
	t.Fatal("there is no leader")
	return nil
}

// partKey is where a part of a lock is in etcd, and memberKey where an owner stands.
func partKey(t testing.TB, key, part string) string    { return prefix(t) + "{" + key + "}/" + part }
func memberKey(t testing.TB, key, owner string) string { return partKey(t, key, "member/"+owner) }

// stored returns what etcd has of an owner.
func stored(t testing.TB, c *clientv3.Client, key, owner string) (value string, lease clientv3.LeaseID) {
	t.Helper()
	r, err := c.Get(t.Context(), memberKey(t, key, owner))
	must(t, err)
	require(t, len(r.Kvs) == 1, "the key of %s: %v", owner, r)
	return string(r.Kvs[0].Value), clientv3.LeaseID(r.Kvs[0].Lease)
}

// claims makes n claims in key order.
func claims(n int, claim func(string) driver.Claim) (all []driver.Claim) {
	for i := range n {
		all = append(all, claim(fmt.Sprintf("set:%04d", i)))
	}
	return all
}

// grow puts values until etcd refuses.
func grow(t testing.TB, c *clientv3.Client) {
	t.Helper()
	value := strings.Repeat("x", 100_000)
	for i := range 1000 {
		if _, err := c.Put(t.Context(), fmt.Sprintf("filler/%d", i), value); err != nil {
			return
		}
	}
	t.Fatal("etcd has room for 100 MB")
}
