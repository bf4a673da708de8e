package trial

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/proof/member"
	"github.com/keyturn/keyturn/proof/work"
	"github.com/keyturn/keyturn/store/redlock"
)

const (
	voters = 5
	quorum = 3
)

// independent is five servers that know nothing of each other, and keep nothing over a restart.
type independent struct {
	whole
	t        *redistest.Run
	ttl      time.Duration
	nodes    []*redistest.Server
	machines []*redistest.Machine // empty: there is no C compiler
	ways     []*way
	clients  []*redis.Client
	born     [voters]atomic.Int64 // when a node was last started anew
}

func newIndependent(t *redistest.Run, c Config) bed {
	b := &independent{t: t, ttl: c.ttl}
	var proxies []*servertest.Proxy
	var clients []*redis.Client
	for range voters {
		var node *redistest.Server
		if redistest.HasMachines() {
			var machine *redistest.Machine
			node, machine = redistest.StartOnMachine(t)
			b.machines = append(b.machines, machine)
		} else {
			node = redistest.Start(t)
		}
		b.nodes = append(b.nodes, node)
		proxies = append(proxies, servertest.NewProxy(t, node.Addr()))
		clients = append(clients, node.Client())
		client := prober(node.Addr())
		t.Cleanup(func() { _ = client.Close() })
		b.clients = append(b.clients, client)
	}
	b.ways = ways("node", proxies)
	if err := initialize(clients); err != nil {
		t.Fatalf("init: %w", err)
	}
	return b
}

// initialize lets new nodes vote at once.
func initialize(clients []*redis.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	store, err := redlock.New(clients, redlock.WithMaxTTL(member.MaxTTL))
	if err != nil {
		return err
	}
	return errors.Join(store.Init(ctx), store.Close())
}

func (b *independent) attach(p *member.Process, _ int) {
	p.Plain = true // it has neither sets, nor other modes, nor records
	for _, way := range b.ways {
		p.Addrs = append(p.Addrs, way.Addr())
	}
}

func (b *independent) leftovers(ctx context.Context) ([]string, error) {
	return leftovers(ctx, b.nodes)
}

// probe asks whether there is a quorum of nodes that may vote. One that was started anew may not, for
// the longest TTL.
func (b *independent) probe(ctx context.Context, _ int) error {
	votes := 0
	var errs []error
	for i, client := range b.clients {
		switch err := takes(ctx, client, probeKey, 0); {
		case err != nil:
			errs = append(errs, err)
		case work.Monotonic() > b.born[i].Load()+int64(member.MaxTTL):
			votes++
		}
	}
	if votes < quorum {
		return fmt.Errorf("%d of %d nodes vote: %w", votes, voters, errors.Join(errs...))
	}
	return nil
}

// restart starts nodes without their data.
func (b *independent) restart(nodes []int) {
	for _, i := range nodes {
		b.nodes[i].Restart(b.t)
		b.born[i].Store(work.Monotonic())
	}
}

func (b *independent) faults() []fault {
	each := func(nodes []int, do func(*redistest.Server)) {
		for _, i := range nodes {
			do(b.nodes[i])
		}
	}
	// on strikes some of the nodes, which are no quorum.
	on := func(name string, loses bool, most int, strike func(s *stroke, nodes []int)) fault {
		return fault{name: name, lane: servers, loses: loses, strike: func(s *stroke) {
			hit := s.rand.Perm(voters)[:1+s.rand.IntN(most)]
			s.place = fmt.Sprint("nodes ", hit)
			strike(s, hit)
		}}
	}
	all := []fault{
		flushScripts(func() []*redistest.Server { return b.nodes }),
		on("freeze", false, voters-quorum, func(s *stroke, hit []int) {
			each(hit, (*redistest.Server).Pause)
			s.lasts(b.ttl/5, 2*b.ttl)
			each(hit, (*redistest.Server).Resume)
		}),
		on("empty", false, voters-quorum, func(s *stroke, hit []int) {
			each(hit, (*redistest.Server).Kill)
			s.lasts(0, 2*b.ttl)
			b.restart(hit)
		}),
		// Leases have the votes of three nodes, and two of these forget them. With the two that had no
		// vote to give, that would be a quorum.
		on("amnesia", false, 1, func(s *stroke, _ []int) {
			nodes := s.rand.Perm(voters)
			silent, forgetful := nodes[:voters-quorum], nodes[voters-quorum:][:voters-quorum]
			s.place = fmt.Sprint("nodes ", forgetful)
			each(silent, (*redistest.Server).Pause)
			s.lasts(b.ttl/2, b.ttl)
			each(silent, (*redistest.Server).Resume)
			b.restart(forgetful)
		}),
	}
	if len(b.machines) > 0 {
		// Two quorums have one node in common, so one wrong clock may be enough.
		all = append(all, on("clock", true, 1, func(s *stroke, hit []int) {
			d := time.Duration(s.rand.Int64N(int64(4*b.ttl))) - 2*b.ttl
			s.place += " " + d.Round(time.Millisecond).String()
			b.machines[hit[0]].Jump(d)
			if d < 0 {
				s.lasts(-d, -d)
			}
		}))
	}
	return append(all, tangles(b.ways, b.ttl)...)
}
