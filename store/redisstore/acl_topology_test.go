//go:build unix

package redisstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/store/redisstore"
)

// What a user needs besides on a Cluster, with WithReplicas, and of a Sentinel, according to docs/operations.md.
const (
	aclCluster  = "+cluster|slots +command"
	aclReplicas = "+wait"
	aclSentinel = "&+switch-master &+replica-reconf-done +sentinel|get-master-addr-by-name +sentinel|sentinels +subscribe +ping"
)

// TestACLOfCluster: users are not replicated, so every node has the user.
func TestACLOfCluster(t *testing.T) {
	servertest.LongParallel(t)
	nodes := redistest.StartCluster(t, 3)
	for _, node := range nodes {
		as(t, node, aclKeys, aclChannels, aclCommands, aclMessages, aclCluster)
	}
	client := clusterOf(t, nodes, func(o *redis.ClusterOptions) { o.Username, o.Password = "keyturn", "pw" })
	useEverything(t, open(t, client, noPolling), open(t, client, noPolling))
	noneIsMissed(t, nodes...)
}

// TestACLOfSentinel: the user is allowed what it needs on all servers, and another one on the Sentinel.
// Before a failover and after it, everything works.
func TestACLOfSentinel(t *testing.T) {
	servertest.LongParallel(t)
	s := redistest.StartSentinel(t, 1, 500*time.Millisecond)
	for _, node := range s.Nodes {
		as(t, node, aclKeys, aclChannels, aclCommands, aclMessages, aclReplicas)
	}
	as(t, s.Sentinel, aclSentinel)
	client := s.Client(func(o *redis.FailoverOptions) {
		o.Username, o.Password, o.SentinelUsername, o.SentinelPassword = "keyturn", "pw", "keyturn", "pw"
	})
	confirmed := redisstore.WithReplicas(1, time.Second)
	useEverything(t, open(t, client, noPolling, confirmed), open(t, client, noPolling, confirmed))
	old := s.Master(t)
	s.Failover(t)
	s.Follow(t, old)
	eventually(t, 10*time.Second, "the client knows the new master", func() bool {
		return client.Set(bg, "lock:x", "y", time.Millisecond).Err() == nil
	})
	useModes(t, open(t, client, noPolling, confirmed), open(t, client, noPolling, confirmed))
	noneIsMissed(t, append(s.Nodes, s.Sentinel)...)
}

// TestClientThatReadsFromReplicas: a program may let go-redis read from the replicas of a Cluster,
// which lag. The store must not: a replica that it asked would not know the last grants.
func TestClientThatReadsFromReplicas(t *testing.T) {
	servertest.LongParallel(t)
	masters := redistest.StartCluster(t, 1)
	replicas := redistest.AddReplicas(t, masters)
	for name, route := range map[string]func(*redis.ClusterOptions){
		"ReadOnly":       func(o *redis.ClusterOptions) { o.ReadOnly = true },
		"RouteByLatency": func(o *redis.ClusterOptions) { o.RouteByLatency = true },
		"RouteRandomly":  func(o *redis.ClusterOptions) { o.RouteRandomly = true },
	} {
		t.Run(name, func(t *testing.T) {
			client := clusterOf(t, masters, route)
			for _, r := range replicas {
				r.Pause() // they answer nothing, so that nobody gets on with them
				defer r.Resume()
			}
			for i := range 6 {
				prefix := redisstore.WithPrefix(fmt.Sprint(name, i, ":"))
				a, b := open(t, client, prefix), open(t, client, prefix)
				useEverything(t, a, b)
				wantIs(t, "operators", inspectEverything(a), nil)
			}
		})
	}
}
