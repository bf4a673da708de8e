//go:build unix

package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/internal/servertest"
)

// MasterName is the name of the master for a [Sentinel].
const MasterName = "keyturn"

// SentinelIP is the address from which the Sentinel connects. Systems other than Linux have only one
// loopback address, and then it is not true.
const SentinelIP = "127.0.0.2"

// Sentinel is a master and its replicas, which a Redis Sentinel watches. One Sentinel is
// enough: its quorum is 1, so it decides alone.
//
// The replicas, the Sentinel and the clients reach each server through a proxy. So
// Ways[i].Blackhole() cuts server i off without notice, and Nodes[i].Client() is a client on
// its side of the cut. Ways[i].Shun(SentinelIP) cuts it off from the Sentinel alone.
type Sentinel struct {
	Nodes    []*Server           // the first is the master at the start
	Ways     []*servertest.Proxy // Ways[i] leads to Nodes[i]
	Sentinel *Server
}

// StartSentinel runs a master with that many replicas, and a Sentinel, until the test and its
// subtests end. A server that does not answer for downAfter counts as down; a second or two
// later the Sentinel has promoted a replica. args are added to the command line of each server.
// It fails the test as [Start] does.
func StartSentinel(t testing.TB, replicas int, downAfter time.Duration, args ...string) *Sentinel {
	t.Helper()
	s := &Sentinel{}
	for range replicas + 1 {
		// A new replica gets its data at once, without waiting for further replicas.
		node := Start(t, append([]string{"--repl-diskless-sync-delay", "0"}, args...)...)
		s.Nodes = append(s.Nodes, node)
		s.Ways = append(s.Ways, servertest.NewProxy(t, node.Addr()))
	}
	host, port := s.way(t, 0)
	for i, node := range s.Nodes {
		_, own := s.way(t, i)
		command(t, node, "config", "set", "replica-announce-ip", host, "replica-announce-port", own)
		if i > 0 {
			command(t, node, "replicaof", host, port)
		}
	}
	master := s.Nodes[0].Client()
	s.await(t, "replicas", func() bool {
		info := master.Info(context.Background(), "replication").Val()
		return strings.Count(info, ",state=online,") == replicas
	})

	// The Sentinel keeps its state in this file.
	conf := filepath.Join(t.TempDir(), "sentinel.conf")
	if err := os.WriteFile(conf, nil, 0o600); err != nil {
		t.Fatalf("redistest: %v", err)
	}
	args = []string{"--sentinel"}
	if runtime.GOOS == "linux" {
		args = append(args, "--bind-source-addr", SentinelIP)
	}
	s.Sentinel = start(t, conf, "Sentinel ID is", args, nil)
	command(t, s.Sentinel, "sentinel", "monitor", MasterName, host, port, 1)
	command(t, s.Sentinel, "sentinel", "set", MasterName,
		"down-after-milliseconds", downAfter.Milliseconds(), "failover-timeout", 5000)
	// Otherwise a Sentinel that did not run for 2 s, on a busy machine, acts on nothing for 30 s. Redis
	// before 7.0 has no such setting.
	_ = s.Sentinel.Client().Do(context.Background(), "sentinel", "debug", "tilt-trigger", time.Hour.Milliseconds()).Err()
	client := redis.NewSentinelClient(&redis.Options{Addr: s.Sentinel.Addr()})
	defer client.Close()
	s.await(t, "replicas known to the Sentinel", func() bool {
		known := 0
		for _, r := range client.Replicas(context.Background(), MasterName).Val() {
			if r["flags"] == "slave" && r["master-link-status"] == "ok" {
				known++
			}
		}
		return known == replicas
	})
	return s
}

// Client returns a new client that asks the Sentinel for the master. It is closed when the test
// ends. The options are go-redis' defaults, changed by opts.
func (s *Sentinel) Client(opts ...func(*redis.FailoverOptions)) *redis.Client {
	o := &redis.FailoverOptions{MasterName: MasterName, SentinelAddrs: []string{s.Sentinel.Addr()}}
	for _, opt := range opts {
		opt(o)
	}
	c := redis.NewFailoverClient(o)
	s.Sentinel.t.Cleanup(func() { _ = c.Close() }) // the test may have closed it already
	return c
}

// Master returns the number of the node that is the master, according to the Sentinel.
func (s *Sentinel) Master(t testing.TB) int {
	t.Helper()
	client := redis.NewSentinelClient(&redis.Options{Addr: s.Sentinel.Addr()})
	defer client.Close()
	addr, err := client.GetMasterAddrByName(context.Background(), MasterName).Result()
	if err != nil {
		t.Fatalf("redistest: sentinel: %v", err)
	}
	for i, way := range s.Ways {
		if net.JoinHostPort(addr[0], addr[1]) == way.Addr() {
			return i
		}
	}
	t.Fatalf("redistest: the Sentinel has a master that is not ours: %v", addr)
	return -1
}

// AwaitFailover waits until a node other than old is the master and knows it. It returns the
// node's number.
func (s *Sentinel) AwaitFailover(t testing.TB, old int) int {
	t.Helper()
	master := old
	s.await(t, "new master", func() bool {
		master = s.Master(t)
		if master == old {
			return false
		}
		role, err := s.Nodes[master].CLI("INFO", "replication")
		return err == nil && strings.Contains(role, "role:master")
	})
	return master
}

// Rejoin starts node i again, after a Kill, as a replica of the present master. It returns when the
// node has the data. Call it only after the failover: a master that comes back empty before that
// stays the master, and its replicas lose their data to it.
func (s *Sentinel) Rejoin(t testing.TB, i int) {
	t.Helper()
	node := s.Nodes[i]
	node.Restart(t)
	host, own := s.way(t, i)
	command(t, node, "config", "set", "replica-announce-ip", host, "replica-announce-port", own)
	s.Follow(t, i)
}

// Follow makes node i a replica of the present master, and waits until it has the data. The
// Sentinel does the same for a master that comes back, but only after some ten seconds.
func (s *Sentinel) Follow(t testing.TB, i int) {
	t.Helper()
	ctx, client, follows := context.Background(), s.Nodes[i].Client(), -1
	s.await(t, fmt.Sprintf("link of replica %d to its master", i), func() bool {
		// There may be another failover meanwhile, which may even make it the master.
		switch master := s.Master(t); {
		case master == i:
			return true
		case master != follows:
			host, port := s.way(t, master)
			command(t, s.Nodes[i], "replicaof", host, port)
			follows = master
		}
		return strings.Contains(client.Info(ctx, "replication").Val(), "master_link_status:up")
	})
}

// Failover has the Sentinel make a replica the master, although nothing failed. It returns the
// number of the new master. Right after another failover, the Sentinel needs some seconds to learn
// that there is a replica.
func (s *Sentinel) Failover(t testing.TB) int {
	t.Helper()
	old := s.Master(t)
	s.await(t, "failover", func() bool {
		return s.Sentinel.Client().Do(context.Background(), "sentinel", "failover", MasterName).Err() == nil
	})
	return s.AwaitFailover(t, old)
}

// way returns the address at which node i is reached.
func (s *Sentinel) way(t testing.TB, i int) (host, port string) {
	t.Helper()
	host, port, err := net.SplitHostPort(s.Ways[i].Addr())
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	return host, port
}

// await asks until so is true. A failover takes some seconds, more on a busy machine.
func (s *Sentinel) await(t testing.TB, what string, so func() bool) {
	t.Helper()
	if within(joinTimeout, so) {
		return
	}
	said := ""
	if s.Sentinel != nil {
		said = s.Sentinel.Log()
	}
	t.Fatalf("redistest: no %s after %v\n%s", what, joinTimeout, said)
}

func within(d time.Duration, so func() bool) bool {
	for end := time.Now().Add(d); !so(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}
