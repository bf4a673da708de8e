package migrating

import (
	"context"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/keyturn/keyturn/internal/etcdtest"
	"github.com/keyturn/keyturn/internal/redistest"
)

// TestBothWithEtcd: the version between holds a lock in etcd and one in Redis. Processes that know
// only etcd's exclude it, and so do those that know only the one in Redis.
func TestBothWithEtcd(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	// Callers with the same session do not exclude each other, so each has one of its own.
	sessions := make(chan *concurrency.Session, 4)
	for range cap(sessions) {
		sessions <- session(t, server.Addr())
	}
	withOld := func(ctx context.Context, order string, charge work) error {
		mine := <-sessions
		defer func() { sessions <- mine }()
		return withEtcd(ctx, mine, order, charge)
	}
	redis := redistest.Start(t)
	eng, end, err := peerNamed("redislock").engine([]string{redis.Addr()})
	must(t, err)
	t.Cleanup(end)
	both := func(ctx context.Context, order string, charge work) error {
		return withBoth(ctx, eng, withOld, order, charge)
	}
	take(t, both, withOld)
	take(t, both, keyturnOn(eng))
}

func session(t *testing.T, addr string) *concurrency.Session {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop()})
	must(t, err)
	s, err := concurrency.NewSession(client)
	must(t, err)
	t.Cleanup(func() {
		_ = s.Close()
		_ = client.Close()
	})
	return s
}
