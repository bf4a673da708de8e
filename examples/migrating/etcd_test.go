package migrating

import (
	"context"
	"fmt"
	"os/exec"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
)

// TestBothWithEtcd: the version between holds a lock in etcd and one in Redis. Processes that know
// only etcd's exclude it, and so do those that know only the one in Redis.
func TestBothWithEtcd(t *testing.T) {
	t.Parallel()
	bin, err := servertest.LookPath([]string{"etcd"}, "/usr/sbin")
	if err != nil {
		t.Fatal(err)
	}
	peer, err := servertest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	server := servertest.Start(t, servertest.Program{
		Ready: "serving client traffic",
		Command: func(port int) *exec.Cmd {
			clients, peers := fmt.Sprintf("http://127.0.0.1:%d", port), fmt.Sprintf("http://127.0.0.1:%d", peer)
			return exec.Command(
				bin, "--data-dir", dir, "--logger", "zap", "--log-outputs", "stderr", "--initial-cluster", "default="+peers,
				"--listen-client-urls", clients, "--advertise-client-urls", clients, "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers,
			)
		},
	})
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
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	both := func(ctx context.Context, order string, charge work) error {
		return withBoth(ctx, eng, withOld, order, charge)
	}
	take(t, both, withOld)
	take(t, both, func(ctx context.Context, order string, charge work) error {
		return withKeyturn(ctx, eng, order, charge)
	})
}

func session(t *testing.T, addr string) *concurrency.Session {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	s, err := concurrency.NewSession(client)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.Close()
		_ = client.Close()
	})
	return s
}
