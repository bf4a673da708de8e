//go:build unix

package redistest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	slots = 16384
	// Nodes hear of each other by gossip, a second or two apart.
	joinTimeout = 30 * time.Second
)

// StartCluster runs a Cluster of so many masters, without replicas, until the
// test and its subtests end. The slots are shared out evenly, in the order of
// the servers. It fails the test as [Start] does.
func StartCluster(t testing.TB, masters int) []*Server {
	t.Helper()
	nodes := make([]*Server, masters)
	buses := make([]int, masters)
	for i := range nodes {
		// Else it is 10000 above the node's port, which may be beyond the last.
		bus, err := freePort()
		if err != nil {
			t.Fatalf("redistest: no free port: %v", err)
		}
		buses[i] = bus
		nodes[i] = Start(t, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(bus))
	}
	for i, node := range nodes {
		do := func(args ...any) {
			t.Helper()
			if err := node.Client().Do(context.Background(), args...).Err(); err != nil {
				t.Fatalf("redistest: %v: %v", args, err)
			}
		}
		do("cluster", "addslotsrange", i*slots/masters, (i+1)*slots/masters-1)
		// Else all have the same, and settle it by themselves, later.
		do("cluster", "set-config-epoch", i+1)
		if i > 0 {
			do("cluster", "meet", "127.0.0.1", nodes[0].port, buses[0])
		}
	}
	for _, node := range nodes {
		if err := awaitCluster(t, node.Client(), masters); err != nil {
			t.Fatalf("redistest: %v", err)
		}
	}
	return nodes
}

// awaitCluster waits until a node knows all others and serves.
func awaitCluster(t testing.TB, client *redis.Client, masters int) error {
	want := []string{"cluster_state:ok", fmt.Sprintf("cluster_size:%d", masters), fmt.Sprintf("cluster_slots_ok:%d", slots)}
	for end := time.Now().Add(joinTimeout); ; time.Sleep(10 * time.Millisecond) {
		info, err := client.ClusterInfo(context.Background()).Result()
		if err != nil {
			return err
		}
		missing := false
		for _, line := range want {
			missing = missing || !strings.Contains(info, line+"\r\n")
		}
		if !missing {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("no cluster of %d after %v:\n%s", masters, joinTimeout, info)
		}
	}
}
