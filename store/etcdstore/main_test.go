package etcdstore_test

import (
	"flag"
	"io"
	"log/slog"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/internal/etcdtest"
	"github.com/keyturn/keyturn/store/etcdstore"
	"github.com/keyturn/keyturn/store/etcdstore/internal/clienttest"
)

func TestMain(m *testing.M) {
	// Nearly all that these tests do is to wait for leases to end.
	flag.Parse()
	_ = flag.Set("test.parallel", "10")
	goleak.VerifyTestMain(etcdtest.Main(m))
}

// silent is for stores whose server is broken on purpose.
var silent = etcdstore.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))

// shared is a client of the server that the tests share.
func shared(t testing.TB) *clientv3.Client {
	t.Helper()
	return clienttest.New(t, etcdtest.Shared(t).Addr())
}

// prefix keeps the keys of a test apart from those of the others.
func prefix(t testing.TB) string { return etcdstore.DefaultPrefix + t.Name() + "/" }

// open makes a store that the test closes.
func open(t testing.TB, c *clientv3.Client, opts ...etcdstore.Option) *etcdstore.Store {
	t.Helper()
	s, err := etcdstore.New(t.Context(), c, append([]etcdstore.Option{silent, etcdstore.WithPrefix(prefix(t))}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}
