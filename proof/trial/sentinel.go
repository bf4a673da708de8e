package trial

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/proof/history"
	"github.com/keyturn/keyturn/proof/member"
	"github.com/keyturn/keyturn/proof/work"
)

const (
	replicas  = 2
	downAfter = time.Second
	// tangle is the longest fault of a network here. It is no reason for a failover.
	tangle = 400 * time.Millisecond
)

// sentinel is a master and two replicas behind a Sentinel.
type sentinel struct {
	whole
	t       *redistest.Run
	ttl     time.Duration
	s       *redistest.Sentinel
	ways    []*way
	guides  []*servertest.Proxy // to the Sentinel, one for each process
	clients []*redis.Client     // through the ways
	guide   *redis.SentinelClient
	confirm int // how many replicas confirm a grant
}

func newSentinel(t *redistest.Run, c Config) bed {
	b := &sentinel{t: t, ttl: c.ttl, s: redistest.StartSentinel(t, replicas, downAfter)}
	// After a failover that was given up it waits for twice this time.
	if err := b.s.Sentinel.Client().Do(context.Background(), "sentinel", "set", redistest.MasterName, "failover-timeout", 1000).Err(); err != nil {
		t.Fatalf("%w", err)
	}
	b.guide = redis.NewSentinelClient(impatient(b.s.Sentinel.Addr()))
	t.Cleanup(func() { _ = b.guide.Close() })
	if c.Confirmed {
		b.confirm = replicas
	}
	for range c.Processes {
		b.guides = append(b.guides, servertest.NewProxy(t, b.s.Sentinel.Addr()))
	}
	b.ways = ways("node", b.s.Ways)
	for _, way := range b.ways {
		client := prober(way.Addr())
		t.Cleanup(func() { _ = client.Close() })
		b.clients = append(b.clients, client)
	}
	return b
}

func (b *sentinel) attach(p *member.Process, place int) {
	p.Addrs, p.Replicas = []string{b.guides[place].Addr()}, b.confirm
}

func (b *sentinel) leftovers(ctx context.Context) ([]string, error) {
	return leftovers(ctx, b.masters())
}

func (b *sentinel) masters() []*redistest.Server {
	return []*redistest.Server{b.s.Nodes[b.s.Master(b.t)]}
}

// probe asks the Sentinel for the master, and then the master, because a client has no other way to
// it. A replica that was made the master takes writes some time before the Sentinel names it, and
// for several seconds if the Sentinel gives up the failover and begins again.
func (b *sentinel) probe(ctx context.Context, _ int) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	addr, err := b.guide.GetMasterAddrByName(ctx, redistest.MasterName).Result()
	if err != nil {
		return err
	}
	for i, way := range b.ways {
		if net.JoinHostPort(addr[0], addr[1]) == way.Addr() {
			return takes(ctx, b.clients[i], probeKey, b.confirm)
		}
	}
	return fmt.Errorf("the Sentinel has a master that is not ours: %v", addr)
}

func (b *sentinel) faults() []fault {
	on := func(name string, strike func(s *stroke, master int)) fault {
		return fault{name: name, lane: servers, loses: b.confirm == 0, strike: func(s *stroke) {
			master := b.s.Master(b.t)
			w := b.ways[master]
			w.busy.Lock()
			defer w.busy.Unlock()
			s.place = fmt.Sprint("node ", master+1)
			strike(s, master)
		}}
	}
	all := []fault{
		flushScripts(func() []*redistest.Server { return b.s.Nodes }),
		on("crash", func(s *stroke, master int) {
			b.s.Nodes[master].Kill()
			b.s.AwaitFailover(b.t, master)
			s.lasts(0, time.Second)
			b.s.Rejoin(b.t, master)
		}),
		// The replicas lack the last writes when they take over.
		on("behind", func(s *stroke, master int) {
			b.others(master, (*redistest.Server).Pause)
			// Otherwise they find what they missed in their sockets.
			_ = b.s.Nodes[master].Client().Do(s.ctx, "client", "kill", "type", "replica").Err()
			s.lasts(downAfter/4, downAfter/2)
			b.s.Nodes[master].Kill()
			b.others(master, (*redistest.Server).Resume)
			b.s.AwaitFailover(b.t, master)
			b.s.Rejoin(b.t, master)
		}),
		on("freeze", func(s *stroke, master int) {
			b.s.Nodes[master].Pause()
			b.s.AwaitFailover(b.t, master)
			s.lasts(0, time.Second)
			b.s.Nodes[master].Resume()
			s.lasts(0, time.Second) // for a while it takes itself for the master
			b.s.Follow(b.t, master)
		}),
		on("isolate", func(s *stroke, master int) {
			b.ways[master].Blackhole()
			b.s.AwaitFailover(b.t, master)
			s.lasts(0, time.Second)
			b.ways[master].Heal()
			s.lasts(0, time.Second)
			b.s.Follow(b.t, master)
		}),
		// The Sentinel does not reach the master, and a process does not reach the Sentinel. So this
		// process goes on with the master that was replaced.
		on("split", func(s *stroke, master int) {
			guide := b.guides[s.rand.IntN(len(b.guides))]
			guide.Blackhole()
			b.ways[master].Shun(redistest.SentinelIP)
			b.s.AwaitFailover(b.t, master)
			s.lasts(0, b.ttl)
			b.ways[master].Heal()
			guide.Heal()
			s.lasts(0, time.Second)
			b.s.Follow(b.t, master)
		}),
		on("failover", func(s *stroke, master int) {
			if b.failover(s.ctx, master) {
				s.lasts(0, time.Second)
				b.s.Follow(b.t, master)
			}
		}),
	}
	if runtime.GOOS != "linux" { // the Sentinel has no address of its own
		all = slices.DeleteFunc(all, func(f fault) bool { return f.name == "split" })
	}
	return append(all, tangles(b.ways, tangle)...)
}

// logs returns what the nodes and the Sentinel said.
func (b *sentinel) logs() map[string]string {
	all := map[string]string{"sentinel.log": b.s.Sentinel.Log()}
	for i, node := range b.s.Nodes {
		all[fmt.Sprintf("node-%d.log", i+1)] = node.Log()
	}
	return all
}

// others does something to all nodes except the master.
func (b *sentinel) others(master int, do func(*redistest.Server)) {
	for i, node := range b.s.Nodes {
		if i != master {
			do(node)
		}
	}
}

// failover reports whether the Sentinel made another node the master. It may refuse, or give up, if
// it does not reach the replicas.
func (b *sentinel) failover(ctx context.Context, master int) bool {
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end) && ctx.Err() == nil; pause(ctx, 50*time.Millisecond) {
		_ = b.s.Sentinel.Client().Do(ctx, "sentinel", "failover", redistest.MasterName).Err()
		if b.s.Master(b.t) != master {
			return true
		}
	}
	return false
}

// takeover is no fault of the nemesis.
const takeover = "takeover"

// takeovers watches for failovers that no fault was meant to cause, until ctx ends. A busy machine is
// enough for the Sentinel.
func (b *sentinel) takeovers(ctx context.Context) []Struck {
	var all []Struck
	master, seen := b.s.Master(b.t), work.Monotonic()
	for ; ctx.Err() == nil; pause(ctx, 100*time.Millisecond) {
		now := b.s.Master(b.t)
		if now != master {
			from := seen - int64(downAfter+2*time.Second)
			b.retire(ctx, master)
			all = append(all, Struck{Fault: takeover, Place: fmt.Sprint("node ", master+1), Span: history.Span{From: from, To: work.Monotonic()}, Loses: b.confirm == 0, Part: -1})
		}
		master, seen = now, work.Monotonic()
	}
	return all
}

// retire makes a master that was replaced a replica, and returns when it takes no writes any more. The
// Sentinel names the new master when it has promoted it. It tells the clients a second or more later,
// when the other replicas follow, and the old master itself after some ten seconds. Until then a
// client that reaches the old master is granted leases there, and they are lost. (If a fault made the
// failover, retire waits for its end: most faults have the old master follow by themselves.)
func (b *sentinel) retire(ctx context.Context, old int) {
	w := b.ways[old]
	w.busy.Lock()
	defer w.busy.Unlock()
	for ; ctx.Err() == nil; pause(ctx, 50*time.Millisecond) {
		now := b.s.Master(b.t)
		if now == old { // again, because of another failover
			return
		}
		host, port, _ := net.SplitHostPort(b.ways[now].Addr())
		bounded, cancel := context.WithTimeout(ctx, probeTimeout)
		err := b.s.Nodes[old].Client().Do(bounded, "replicaof", host, port).Err()
		cancel()
		if err == nil {
			return
		}
	}
}
