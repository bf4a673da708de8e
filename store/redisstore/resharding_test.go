//go:build unix

package redisstore_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
)

// TestResharding: a node joins a Cluster, the slots of all keys in use move to it and back, several
// times, and it leaves again. Two processes that work meanwhile see no error, never hold a key
// together, and get rising tokens. A lease that is held all the time stays in force.
func TestResharding(t *testing.T) {
	servertest.LongParallel(t)
	// Otherwise a master that has given its last slot away becomes a replica.
	const stays, no = "--cluster-allow-replica-migration", "no"
	nodes := redistest.StartCluster(t, 2, stays, no)
	first, second := clusterOf(t, nodes), clusterOf(t, nodes)
	engines := []*core.Engine{engine(t, open(t, first), core.WithTTL(2*time.Second)), engine(t, open(t, second), core.WithTTL(2*time.Second))}
	var slots []int
	for i := range 12 {
		slots = append(slots, int(first.ClusterKeySlot(t.Context(), fmt.Sprint("lock:k", i)).Val()))
	}
	held := acquire(t, engines[0], "k0")

	var all sync.WaitGroup
	var done atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	defer all.Wait()
	defer stop()
	for i := 1; i < len(slots); i++ {
		var inside atomic.Int64
		var last atomic.Uint64
		for _, eng := range engines {
			all.Go(func() {
				for ctx.Err() == nil {
					err := eng.Do(bg, fmt.Sprint("k", i), func(ctx context.Context) error {
						check(t, inside.Add(1) == 1, "two are in k%d", i)
						lease, _ := core.LeaseFrom(ctx)
						before := last.Swap(lease.Token())
						check(t, before < lease.Token(), "k%d: token %d follows %d", i, lease.Token(), before)
						inside.Add(-1)
						return nil
					})
					check(t, err == nil, "k%d: %v", i, err)
					done.Add(1)
					time.Sleep(5 * time.Millisecond)
				}
			})
		}
	}
	worked := func(when string) {
		t.Helper()
		before := done.Load()
		eventually(t, 20*time.Second, "work goes on "+when, func() bool { return done.Load() > before+100 })
	}

	worked("before")
	joined := redistest.AddNode(t, nodes, stays, no)
	grown := append([]*redistest.Server{joined}, nodes...)
	home := func(slot int) *redistest.Server { return nodes[slot*len(nodes)/16384] }
	for range 3 {
		for _, slot := range slots {
			redistest.MoveSlot(t, slot, home(slot), joined, grown)
		}
		worked("on the new node")
		n := joined.Client().DBSize(t.Context()).Val()
		check(t, n != 0, "the new node has no keys")
		for _, slot := range slots {
			redistest.MoveSlot(t, slot, joined, home(slot), grown)
		}
		worked("on the old nodes")
	}
	// An operator shuts a node down only when the clients know that it has no slots.
	for i := range slots {
		for _, c := range []*redis.ClusterClient{first, second} {
			eventually(t, 20*time.Second, "a client learns where the slots are", func() bool {
				master, err := c.MasterForKey(t.Context(), fmt.Sprint("lock:k", i))
				return err == nil && master.Options().Addr != joined.Addr()
			})
		}
	}
	worked("on the old nodes alone")
	redistest.RemoveNode(t, joined, nodes)
	worked("without the node")
	wantIs(t, "the lease that moved", held.Release(t.Context()), nil)
}
