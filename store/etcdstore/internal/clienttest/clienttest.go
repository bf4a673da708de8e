// Package clienttest makes clients of etcd for tests.
package clienttest

import (
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

// New returns a client of members, which the test closes. It dials again soon after a failure.
func New(t testing.TB, addrs ...string) *clientv3.Client {
	t.Helper()
	return As(t, "", addrs...)
}

// As returns a client of a user of [etcdtest.Protect]; "": of nobody.
func As(t testing.TB, user string, addrs ...string) *clientv3.Client {
	t.Helper()
	quick := backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1.5, Jitter: 0.2, MaxDelay: 200 * time.Millisecond}
	c, err := clientv3.New(clientv3.Config{
		Endpoints: addrs, Username: user, Password: "secret", Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{Backoff: quick, MinConnectTimeout: time.Second})},
	})
	if err != nil {
		t.Fatalf("clienttest: %v", err)
	}
	t.Cleanup(func() { _ = c.Close() }) // the test may have closed it
	return c
}
