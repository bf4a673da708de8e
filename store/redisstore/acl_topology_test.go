package redisstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/store/redisstore"
)

// What a user needs besides on a Cluster, with WithReplicas, and of a Sentinel, according to
// docs/operations.md.
const (
	aclCluster  = "+cluster|slots +command"
	aclReplicas = "+wait"
	aclSentinel = "&+switch-master &+replica-reconf-done +sentinel|get-master-addr-by-name +sentinel|sentinels +subscribe +ping"
)

// TestACLOfCluster: users are not replicated, so every node has the user.
func TestACLOfCluster(t *testing.T) {
	long(t)
	t.Parallel()
	nodes := redistest.StartCluster(t, 3)
	for _, node := range nodes {
		as(t, node, aclKeys, aclChannels, aclCommands, aclMessages, aclCluster)
	}
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Addr()}, Username: "keyturn", Password: "pw"})
	t.Cleanup(func() { _ = client.Close() })
	useEverything(t, open(t, client, noPolling), open(t, client, noPolling))
	noneIsMissed(t, nodes...)
}

// TestACLOfSentinel: the user is allowed what it needs on all servers, and another one on the Sentinel.
// Before a failover and after it, everything works.
func TestACLOfSentinel(t *testing.T) {
	long(t)
	t.Parallel()
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
		return client.Set(context.Background(), "lock:x", "y", time.Millisecond).Err() == nil
	})
	useModes(t, open(t, client, noPolling, confirmed), open(t, client, noPolling, confirmed))
	noneIsMissed(t, append(s.Nodes, s.Sentinel)...)
}
