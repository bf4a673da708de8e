//go:build unix

package redistest

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/internal/servertest"
)

const (
	slots = 16384
	// Nodes learn of each other by gossip, a second or two apart.
	joinTimeout = 30 * time.Second
)

// StartCluster runs a Cluster of that many masters, without replicas, until the test and its
// subtests end. The slots are divided evenly, in the order of the servers. args are added to
// the command line of each server. It fails the test as [Start] does.
func StartCluster(t testing.TB, masters int, args ...string) []*Server {
	t.Helper()
	nodes := make([]*Server, masters)
	buses := make([]int, masters)
	for i := range nodes {
		nodes[i], buses[i] = startNode(t, args)
	}
	for i, node := range nodes {
		do := func(args ...any) {
			t.Helper()
			command(t, node, args...)
		}
		do("cluster", "addslotsrange", i*slots/masters, (i+1)*slots/masters-1)
		// Otherwise all have the same epoch, and settle that by themselves, later.
		do("cluster", "set-config-epoch", i+1)
		if i > 0 {
			do("cluster", "meet", "127.0.0.1", nodes[0].Port(), buses[0])
		}
	}
	for _, node := range nodes {
		if err := awaitCluster(t, node.Client(), masters); err != nil {
			t.Fatalf("redistest: %v", err)
		}
	}
	return nodes
}

// AddReplicas gives each master of a Cluster a replica, in the order of the masters. It returns
// the replicas once they have the data and all nodes know of them. args are added to the
// command line of each server.
func AddReplicas(t testing.TB, masters []*Server, args ...string) []*Server {
	t.Helper()
	replicas := make([]*Server, len(masters))
	for i, master := range masters {
		node, bus := startNode(t, args)
		replicas[i] = node
		id := command(t, master, "cluster", "myid")
		command(t, master, "cluster", "meet", "127.0.0.1", node.Port(), bus)
		// It takes a moment until the node knows its master.
		if !within(joinTimeout, func() bool {
			return node.Client().Do(context.Background(), "cluster", "replicate", id).Err() == nil
		}) {
			t.Fatalf("redistest: no replica of %s after %v", master.Addr(), joinTimeout)
		}
	}
	if !within(joinTimeout, func() bool { return replicated(t, masters, replicas) }) {
		t.Fatalf("redistest: no Cluster with replicas after %v", joinTimeout)
	}
	return replicas
}

// Front puts a proxy in front of each node of a Cluster: clients learn the proxies' addresses from
// the nodes, and replicas reach their masters through them. Nodes still reach each other's bus.
// It returns the proxies, in the order of the nodes.
func Front(t testing.TB, nodes []*Server) []*servertest.Proxy {
	t.Helper()
	ways := make([]*servertest.Proxy, len(nodes))
	for i, node := range nodes {
		ways[i] = servertest.NewProxy(t, node.Addr())
		_, port, _ := net.SplitHostPort(ways[i].Addr())
		command(t, node, "config", "set", "cluster-announce-port", port)
		node.more = append(node.more, "--cluster-announce-port", port) // for a restart
	}
	if !within(joinTimeout, func() bool { return fronted(t, nodes, ways) }) {
		t.Fatalf("redistest: no Cluster behind proxies after %v", joinTimeout)
	}
	return ways
}

// fronted reports whether all nodes know the proxies of all nodes.
func fronted(t testing.TB, nodes []*Server, ways []*servertest.Proxy) bool {
	t.Helper()
	for _, node := range nodes {
		known := command(t, node, "cluster", "nodes")
		if slices.ContainsFunc(ways, func(way *servertest.Proxy) bool { return !strings.Contains(known, way.Addr()+"@") }) {
			return false
		}
	}
	return true
}

// MoveSlot moves a slot with its keys to another node, as redis-cli does. All nodes that have
// slots must be among nodes.
func MoveSlot(t testing.TB, slot int, from, to *Server, nodes []*Server) {
	t.Helper()
	fromID, toID := command(t, from, "cluster", "myid"), command(t, to, "cluster", "myid")
	command(t, to, "cluster", "setslot", slot, "importing", fromID)
	command(t, from, "cluster", "setslot", slot, "migrating", toID)
	for {
		keys, err := from.Client().ClusterGetKeysInSlot(context.Background(), slot, 100).Result()
		if err != nil {
			t.Fatalf("redistest: keys of slot %d: %v", slot, err)
		}
		if len(keys) == 0 {
			break
		}
		args := []any{"migrate", "127.0.0.1", to.Port(), "", 0, 5000, "keys"}
		for _, key := range keys {
			args = append(args, key)
		}
		command(t, from, args...)
	}
	for _, node := range append([]*Server{to, from}, nodes...) { // the new owner first
		command(t, node, "cluster", "setslot", slot, "node", toID)
	}
}

// replicated reports whether all nodes know of the replicas, and the replicas have the data.
func replicated(t testing.TB, masters, replicas []*Server) bool {
	t.Helper()
	for _, node := range append(slices.Clone(masters), replicas...) {
		if strings.Count(command(t, node, "cluster", "slots"), "127.0.0.1") != 2*len(masters) ||
			strings.Contains(command(t, node, "cluster", "nodes"), "disconnected") {
			return false
		}
	}
	return !slices.ContainsFunc(replicas, func(node *Server) bool {
		return !strings.Contains(command(t, node, "info", "replication"), "master_link_status:up")
	})
}

// startNode runs a server that may become part of a Cluster. Nodes talk to each other on the
// port bus.
func startNode(t testing.TB, args []string) (node *Server, bus int) {
	t.Helper()
	// The default is 10000 above the node's port, which may be beyond the last port.
	bus, err := servertest.FreePort()
	if err != nil {
		t.Fatalf("redistest: no free port: %v", err)
	}
	return Start(t, append([]string{"--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(bus)}, args...)...), bus
}

// command runs one command on a node, and returns its answer.
func command(t testing.TB, node *Server, args ...any) string {
	t.Helper()
	said, err := node.Client().Do(context.Background(), args...).Result()
	if err != nil {
		t.Fatalf("redistest: %v: %v", args, err)
	}
	return fmt.Sprint(said)
}

// awaitCluster waits until a node knows all others and serves. It must also have connected to
// them: a node serves while it has no link to another one, and what is published there is then lost.
func awaitCluster(t testing.TB, client *redis.Client, masters int) error {
	want := []string{"cluster_state:ok", fmt.Sprintf("cluster_size:%d", masters), fmt.Sprintf("cluster_slots_ok:%d", slots)}
	for end := time.Now().Add(joinTimeout); ; time.Sleep(10 * time.Millisecond) {
		info, err := client.ClusterInfo(context.Background()).Result()
		if err != nil {
			return err
		}
		nodes, err := client.ClusterNodes(context.Background()).Result()
		if err != nil {
			return err
		}
		missing := strings.Contains(nodes, "disconnected")
		for _, line := range want {
			missing = missing || !strings.Contains(info, line+"\r\n")
		}
		if !missing {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("no cluster of %d after %v:\n%s%s", masters, joinTimeout, info, nodes)
		}
	}
}

// AddNode adds a master without slots to a Cluster. It returns it once all nodes know of each other.
// args are added to its command line.
func AddNode(t testing.TB, nodes []*Server, args ...string) *Server {
	t.Helper()
	node, bus := startNode(t, args)
	for _, other := range nodes {
		command(t, other, "cluster", "meet", "127.0.0.1", node.Port(), bus)
	}
	all := append(slices.Clone(nodes), node)
	if !within(joinTimeout, func() bool {
		return !slices.ContainsFunc(all, func(one *Server) bool {
			info := command(t, one, "cluster", "info")
			return !strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d\r\n", len(all))) || !strings.Contains(info, "cluster_state:ok") ||
				strings.Contains(command(t, one, "cluster", "nodes"), "disconnected")
		})
	}) {
		t.Fatalf("redistest: the Cluster has no new node after %v", joinTimeout)
	}
	return node
}

// RemoveNode has the nodes of a Cluster forget one that has no slots, and ends it.
func RemoveNode(t testing.TB, node *Server, nodes []*Server) {
	t.Helper()
	id := command(t, node, "cluster", "myid")
	for _, other := range nodes {
		command(t, other, "cluster", "forget", id)
	}
	node.Kill()
}
