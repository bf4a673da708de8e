package embedtest

import (
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/keyturn/keyturn/internal/checktest"
)

var must = checktest.Must

// newClient returns a client of members, which the test closes. It dials again soon after a failure.
func newClient(t testing.TB, addrs ...string) *clientv3.Client {
	t.Helper()
	quick := backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1.5, Jitter: 0.2, MaxDelay: 200 * time.Millisecond}
	c, err := clientv3.New(clientv3.Config{
		Endpoints: addrs, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{Backoff: quick, MinConnectTimeout: time.Second})},
	})
	must(t, err)
	t.Cleanup(func() { _ = c.Close() }) // the test may have closed it
	return c
}

// protect has a server ask for passwords, which are "secret". It makes the user root, and the user program,
// which may do what the store needs and nothing else.
func protect(t testing.TB, addr string) {
	t.Helper()
	c, ctx := newClient(t, addr), t.Context()
	readWrite := clientv3.PermissionType(clientv3.PermReadWrite)
	for _, do := range []func() error{
		func() error { _, err := c.RoleAdd(ctx, "locks"); return err },
		func() error {
			_, err := c.RoleGrantPermission(ctx, "locks", "keyturn/", clientv3.GetPrefixRangeEnd("keyturn/"), readWrite)
			return err
		},
		func() error { _, err := c.UserAdd(ctx, "program", "secret"); return err },
		func() error { _, err := c.UserGrantRole(ctx, "program", "locks"); return err },
		func() error { _, err := c.UserAdd(ctx, "root", "secret"); return err },
		func() error { _, err := c.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := c.AuthEnable(ctx); return err },
	} {
		must(t, do())
	}
}

// clientOf returns a client of a user, which the test closes.
func clientOf(t testing.TB, user, addr string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, Username: user, Password: "secret", Logger: zap.NewNop()})
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}
