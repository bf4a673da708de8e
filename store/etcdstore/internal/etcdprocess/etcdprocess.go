//go:build unix

// Package etcdprocess gives tests etcd servers as processes of their own: the program etcd of the
// system, alone or as a cluster of three members. Their elections take 0.1 s, so the shortest lease is
// a second.
package etcdprocess

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/keyturn/keyturn/internal/servertest"
)

// Server is a running member. It keeps its data over a Restart, unless Forget was called.
type Server struct {
	*servertest.Server
	data string
}

// Start runs an etcd until the test and its subtests end, with further flags. The test fails at once
// if the program is missing or does not start.
func Start(t testing.TB, flags ...string) *Server {
	t.Helper()
	return Cluster(t, 1, flags...)[0]
}

// Cluster runs an etcd of several members.
func Cluster(t testing.TB, members int, flags ...string) []*Server {
	t.Helper()
	bin, err := servertest.LookPath([]string{"etcd"}, "/usr/sbin")
	if err != nil {
		t.Fatalf("etcdprocess: %v", err)
	}
	var peers []string
	for i := range members {
		port, err := servertest.FreePort()
		if err != nil {
			t.Fatalf("etcdprocess: no free port: %v", err)
		}
		peers = append(peers, fmt.Sprintf("m%d=http://127.0.0.1:%d", i, port))
	}
	servers := make([]*Server, members)
	for i := range servers {
		servers[i] = &Server{data: filepath.Join(tempDir(t), "data")}
		_, peer, _ := strings.Cut(peers[i], "=")
		servers[i].Server = servertest.Start(t, servertest.Program{
			// It serves clients when most of the members run.
			Ready: "now serving peer",
			Command: func(port int) *exec.Cmd {
				url := fmt.Sprintf("http://127.0.0.1:%d", port)
				return exec.Command(bin, append([]string{
					"--name", fmt.Sprintf("m%d", i), "--data-dir", servers[i].data, "--logger", "zap", "--log-outputs", "stderr",
					"--listen-client-urls", url, "--advertise-client-urls", url,
					"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
					"--initial-cluster", strings.Join(peers, ","), "--heartbeat-interval", "10", "--election-timeout", "100",
				}, flags...)...)
			},
		})
	}
	for _, s := range servers {
		s.await(t)
	}
	return servers
}

// await waits until the member serves clients.
func (s *Server) await(t testing.TB) {
	t.Helper()
	c := Client(t, s.Addr())
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		if _, err := c.Get(ctx, "ready"); err == nil {
			break
		} else if ctx.Err() != nil {
			t.Fatalf("etcdprocess: %v:\n%s", err, s.Log())
		}
	}
	_ = c.Close()
}

// Restart kills the member and starts it again, with its data.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.Server.Restart(t)
	s.await(t)
}

// Pause stops the member, and returns when none of its threads runs any more.
func (s *Server) Pause() {
	s.Server.Pause()
	for end := time.Now().Add(time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", s.PID()))
		if !slices.ContainsFunc(threads, runs) {
			return
		}
	}
}

// runs reports whether a thread is not stopped. Its state stands behind its name in parentheses.
func runs(stat string) bool {
	text, err := os.ReadFile(stat)
	_, rest, _ := strings.Cut(string(text), ") ")
	return err == nil && !strings.HasPrefix(rest, "T")
}

// Forget restarts the member without its data.
func (s *Server) Forget(t testing.TB) {
	t.Helper()
	s.Kill()
	if err := os.RemoveAll(s.data); err != nil {
		t.Fatalf("etcdprocess: %v", err)
	}
	s.Restart(t)
}

// Client returns a client of members, which the test closes. It dials again soon after a failure.
func Client(t testing.TB, addrs ...string) *clientv3.Client {
	t.Helper()
	quick := backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1.5, Jitter: 0.2, MaxDelay: 200 * time.Millisecond}
	c, err := clientv3.New(clientv3.Config{
		Endpoints: addrs, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{Backoff: quick, MinConnectTimeout: time.Second})},
	})
	if err != nil {
		t.Fatalf("etcdprocess: %v", err)
	}
	t.Cleanup(func() { _ = c.Close() }) // the test may have closed it
	return c
}

// tempDir returns a directory for a member's data. In memory, if possible: etcd waits for the disk at
// every write, and a busy disk would make each test slow.
func tempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "etcdprocess-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
