package trial

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/proof/history"
	"github.com/keyturn/keyturn/proof/member"
	"github.com/keyturn/keyturn/proof/work"
)

const (
	shards = 3
	slots  = 16384
)

// nodeTimeout is how long a master is silent until its replica takes over.
const nodeTimeout = 1500 * time.Millisecond

// cluster is a Cluster of three masters, each with a replica. Shard i is node i and node i+3, one
// of which is the master.
type cluster struct {
	t       *redistest.Run
	ttl     time.Duration
	nodes   []*redistest.Server
	ways    []*way
	bus     *redistest.Bus // nil: it cannot be cut here
	clients []*redis.Client
	probes  [shards]string // a key of each shard
	// next is the node of each shard that was the master at the beginning, or that a fault made it.
	next [shards]atomic.Int64
}

func newCluster(t *redistest.Run, c Config) bed {
	args := []string{
		"--cluster-node-timeout", fmt.Sprint(nodeTimeout.Milliseconds()), "--cluster-require-full-coverage", "no",
		"--repl-diskless-sync-delay", "0", "--cluster-allow-replica-migration", "no",
	}
	b := &cluster{t: t, ttl: c.ttl, nodes: redistest.StartCluster(t, shards, args...)}
	b.nodes = append(b.nodes, redistest.AddReplicas(t, b.nodes, args...)...)
	for shard := range shards {
		b.next[shard].Store(int64(shard))
	}
	b.ways = ways("node", redistest.Front(t, b.nodes))
	if runtime.GOOS == "linux" {
		b.bus = redistest.FrontBus(t, b.nodes)
	}
	for _, way := range b.ways {
		client := prober(way.Addr())
		t.Cleanup(func() { _ = client.Close() })
		b.clients = append(b.clients, client)
	}
	for i := 0; slices.Contains(b.probes[:], ""); i++ {
		key := fmt.Sprint(probeKey, i)
		b.probes[shardOf(key)] = key
	}
	return b
}

func (b *cluster) attach(p *member.Process, _ int) {
	for _, way := range b.ways {
		p.Addrs = append(p.Addrs, way.Addr())
	}
}
func (b *cluster) parts() int { return shards }

// part is the shard that has the slot, except while the slot is elsewhere (see migrate).
func (b *cluster) part(key string) int { return shardOf("lock:" + key) }

func (b *cluster) probe(ctx context.Context, part int) error {
	var errs []error
	for _, node := range []int{part, part + shards} {
		err := takes(ctx, b.clients[node], b.probes[part], 0)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (b *cluster) info(node int) string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return b.nodes[node].Client().Info(ctx, "replication").Val()
}

// ready waits until a shard has a master and a replica that follows it, and returns both.
func (b *cluster) ready(shard int) (master, replica int) {
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		for _, pair := range [][2]int{{shard, shard + shards}, {shard + shards, shard}} {
			if strings.Contains(b.info(pair[0]), "role:master") && strings.Contains(b.info(pair[1]), "master_link_status:up") {
				return pair[0], pair[1]
			}
		}
		b.reunite(shard)
		if time.Now().After(end) {
			b.t.Fatalf("shard %d has no replica:\n%s\n%s", shard+1, b.info(shard), b.info(shard+shards))
		}
	}
}

// reunite makes a master without slots follow the other one of its shard. A failover while slots move
// can leave such a master. Nodes that have slots refuse.
func (b *cluster) reunite(shard int) {
	pair := [2]*redis.Client{b.nodes[shard].Client(), b.nodes[shard+shards].Client()}
	if !strings.Contains(b.info(shard), "role:master") || !strings.Contains(b.info(shard+shards), "role:master") {
		return
	}
	for i, node := range pair {
		if id, err := pair[1-i].ClusterMyID(context.Background()).Result(); err == nil {
			_ = node.ClusterReplicate(context.Background(), id).Err()
		}
	}
}

// demoted waits until a node that was a master knows that it is none any more.
func (b *cluster) demoted(node int) {
	for end := time.Now().Add(patience); !strings.Contains(b.info(node), "role:slave"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("node %d is still a master", node+1)
		}
	}
}

// promoted waits until a node serves the slots of its shard.
func (b *cluster) promoted(node int) {
	if err := b.serves(node, patience); err != nil {
		b.t.Fatalf("node %d is no master: %w", node+1, err)
	}
}

// serves waits until a node serves the slots of its shard, or returns why it does not.
func (b *cluster) serves(node int, most time.Duration) error {
	for end := time.Now().Add(most); ; time.Sleep(20 * time.Millisecond) {
		err := b.nodes[node].Client().Set(context.Background(), b.probes[node%shards], "1", time.Second).Err()
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}

// givenUp is when the nodes have given a planned failover up. They do so after 5 s, as on a busy
// machine.
const givenUp = 6 * time.Second

// failover has a replica take over.
func (b *cluster) failover(replica int) {
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		most := givenUp
		if err = b.nodes[replica].Client().ClusterFailover(context.Background()).Err(); err != nil {
			most = 0 // it does not hear of its master at the moment, or is the master by now
		}
		served := b.serves(replica, most)
		if served == nil {
			return
		}
		err = errors.Join(err, served)
	}
	b.t.Fatalf("cluster failover to node %d: %w", replica+1, err)
}

func (b *cluster) leftovers(ctx context.Context) ([]string, error) {
	return leftovers(ctx, b.masters())
}

func (b *cluster) masters() []*redistest.Server {
	var all []*redistest.Server
	for shard := range shards {
		master, _ := b.ready(shard)
		all = append(all, b.nodes[master])
	}
	return all
}

func (b *cluster) faults() []fault {
	each := func(name string, loses bool, strike func(s *stroke, master, replica int)) fault {
		return fault{name: name, lane: servers, loses: loses, strike: func(s *stroke) {
			s.part = s.rand.IntN(shards)
			master, replica := b.ready(s.part)
			s.place = fmt.Sprint("node ", master+1)
			strike(s, master, replica)
		}}
	}
	// on is a fault that makes the replica the master.
	on := func(name string, loses bool, strike func(s *stroke, master, replica int)) fault {
		return each(name, loses, func(s *stroke, master, replica int) {
			b.next[s.part].Store(int64(replica))
			strike(s, master, replica)
		})
	}
	all := []fault{
		flushScripts(func() []*redistest.Server { return b.nodes }),
		on("crash", true, func(s *stroke, master, replica int) {
			b.nodes[master].Kill()
			b.promoted(replica)
			s.lasts(0, time.Second)
			b.nodes[master].Restart(b.t)
			b.demoted(master)
		}),
		on("freeze", true, func(s *stroke, master, replica int) {
			b.nodes[master].Pause()
			b.promoted(replica)
			s.lasts(0, time.Second)
			b.nodes[master].Resume()
			b.demoted(master)
		}),
		on("failover", false, func(s *stroke, _, replica int) {
			b.failover(replica)
		}),
		each("migrate", false, b.migrate),
	}
	if b.bus != nil {
		// The other masters replace it. Its clients still reach it, and it has to stop by itself.
		all = append(all, on("bus", true, func(s *stroke, master, replica int) {
			b.bus.Cut(master)
			b.promoted(replica)
			s.lasts(0, time.Second)
			b.bus.Heal()
			b.demoted(master)
		}))
	}
	return append(all, tangles(b.ways, time.Second)...)
}

// takeovers watches for failovers that no fault was meant to cause, until ctx ends. On a busy machine a
// master is silent for longer than the other nodes wait. Leases that its replica lacks are lost.
func (b *cluster) takeovers(ctx context.Context) []Struck {
	var all []Struck
	var last [shards]int
	var seen [shards]int64
	for shard := range shards {
		last[shard], seen[shard] = shard, work.Monotonic()
	}
	for ; ctx.Err() == nil; pause(ctx, 100*time.Millisecond) {
		for shard, old := range last {
			other := (old + shards) % (2 * shards)
			asked := work.Monotonic()
			switch {
			case !strings.Contains(b.info(other), "role:master"):
				seen[shard] = asked
				continue
			case strings.Contains(b.info(old), "role:master"): // one of them does not know yet, and grants
				continue
			}
			last[shard] = other
			if b.next[shard].Swap(int64(other)) == int64(other) {
				continue
			}
			all = append(all, Struck{
				Fault: takeover, Place: fmt.Sprint("node ", old+1), Loses: true, Part: -1, // slots may be on their way
				Span: history.Span{From: seen[shard] - int64(nodeTimeout+2*time.Second), To: work.Monotonic()},
			})
		}
	}
	return all
}

// migrate moves the slots of some keys that are in use to another shard, and then back.
func (b *cluster) migrate(s *stroke, master, _ int) {
	other, _ := b.ready((s.part + 1) % shards)
	var moved []int
	for _, key := range work.Keys() {
		if name := "lock:" + key; shardOf(name) == s.part {
			moved = append(moved, slotOf(name))
		}
	}
	all := b.masters()
	s.place = fmt.Sprintf("%d slots", len(moved))
	for _, slot := range moved {
		redistest.MoveSlot(b.t, slot, b.nodes[master], b.nodes[other], all)
	}
	s.lasts(0, time.Second)
	for _, slot := range moved {
		redistest.MoveSlot(b.t, slot, b.nodes[other], b.nodes[master], all)
	}
}

// shardOf is the shard that has a key, as StartCluster divides the slots.
func shardOf(key string) int {
	slot := slotOf(key)
	return slices.IndexFunc([]int{1, 2, 3}, func(end int) bool { return slot < end*slots/shards })
}

// slotOf is the slot of a key of a Cluster: CRC16/XMODEM of it, or of what is in its braces.
func slotOf(key string) int {
	if open := strings.IndexByte(key, '{'); open >= 0 {
		if end := strings.IndexByte(key[open+1:], '}'); end > 0 {
			key = key[open+1:][:end]
		}
	}
	crc := uint16(0)
	for _, c := range []byte(key) {
		crc ^= uint16(c) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc) % slots
}
