//go:build unix

package redistest

import (
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/internal/servertest"
)

// TestFront: clients reach the nodes of a Cluster through proxies, before and after a restart, and while a slot moves.
func TestFront(t *testing.T) {
	servertest.LongParallel(t)
	nodes := StartCluster(t, 3)
	ways := Front(t, nodes)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{ways[0].Addr()}, MaxRedirects: -1})
	defer client.Close()
	ctx := t.Context()
	served := func() bool { return client.Set(ctx, "k", "v", 0).Err() == nil }
	require(t, within(joinTimeout, served), "no service")
	slot := int(client.ClusterKeySlot(ctx, "k").Val())
	owner := slot * len(nodes) / slots
	ways[owner].Cut()
	check(t, !served(), "clients don't go through the proxy")
	ways[owner].Heal()

	to := (owner + 1) % len(nodes)
	MoveSlot(t, slot, nodes[owner], nodes[to], nodes)
	got, err := nodes[to].CLI("GET", "k")
	check(t, got == "v", "the moved key is %q, %v", got, err)

	nodes[to].Restart(t)
	check(t, within(joinTimeout, func() bool { return fronted(t, nodes[to:to+1], ways) }), "a restarted node does not know the proxies")
}

// TestRejoin: a killed master comes back as a replica with the data of its successor.
func TestRejoin(t *testing.T) {
	servertest.LongParallel(t)
	s := StartSentinel(t, 1, 500*time.Millisecond)
	ctx := t.Context()
	client := s.Client()
	for round := range 2 {
		old := s.Master(t)
		s.Nodes[old].Kill()
		next := s.AwaitFailover(t, old)
		require(t, within(joinTimeout, func() bool { return client.Set(ctx, "k", round, 0).Err() == nil }), "no service")
		s.Rejoin(t, old)
		got, err := s.Nodes[old].CLI("GET", "k")
		check(t, got == strconv.Itoa(round), "the replica has %q, %v", got, err)
		check(t, s.Master(t) == next, "the master is not %d", next)
	}
	old := s.Master(t)
	next := s.Failover(t)
	check(t, next != old, "nothing has changed")
}
