package trial

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/proof/work"
)

// TestTakeoverOfAClusterIsNoted: a busy machine is enough for a failover, which loses what the replica
// lacks. One that a fault asked for is not noted.
func TestTakeoverOfAClusterIsNoted(t *testing.T) {
	onServers(t, func(run *redistest.Run) {
		b := newCluster(run, Config{Processes: 1}).(*cluster)
		_ = b.masters() // waits for their replicas
		ctx, stop := context.WithCancel(t.Context())
		took := make(chan []Struck, 1)
		go func() { took <- b.takeovers(ctx) }()
		b.next[0].Store(shards)
		b.failover(shards)
		b.demoted(0)
		began := work.Monotonic()
		b.failover(1 + shards)
		b.demoted(1)
		// It looks at all shards in turn, so it has seen both once it has noted the second.
		for end := time.Now().Add(patience); b.next[1].Load() != 1+shards; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				run.Fatalf("the failover was not noted")
			}
		}
		stop()
		all := <-took
		if len(all) != 1 || all[0].Place != "node 2" || !all[0].Loses || all[0].From > began || all[0].To < began {
			t.Errorf("%+v; the failover began at %d", all, began)
		}
	})
}

// TestMasterWithoutSlotsIsMadeAReplica: a failover while slots moved left two masters in a shard, one
// of them without slots.
func TestMasterWithoutSlotsIsMadeAReplica(t *testing.T) {
	onServers(t, func(run *redistest.Run) {
		b := newCluster(run, Config{Processes: 1}).(*cluster)
		_ = b.masters()
		if err := b.nodes[shards].Client().ClusterResetSoft(t.Context()).Err(); err != nil {
			run.Fatalf("%w", err)
		}
		// It meets the others again, as they know each other.
		for _, other := range strings.Split(strings.TrimSpace(b.nodes[0].Client().ClusterNodes(t.Context()).Val()), "\n") {
			addr, bus, _ := strings.Cut(strings.Fields(other)[1], "@")
			_, port, _ := strings.Cut(addr, ":")
			bus, _, _ = strings.Cut(bus, ",")
			if err := b.nodes[shards].Client().Do(t.Context(), "cluster", "meet", "127.0.0.1", port, bus).Err(); err != nil {
				run.Fatalf("meet: %w", err)
			}
		}
		if master, replica := b.ready(0); master != 0 || replica != shards {
			t.Errorf("master %d, replica %d", master, replica)
		}
	})
}
