package trial

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/etcdtest"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/zktest"
	"github.com/keyturn/keyturn/proof/member"
	"github.com/keyturn/keyturn/store/storeurl"
)

// coordinator is one server of etcd or ZooKeeper, which keeps its data. Each process has a way to it of
// its own.
type coordinator struct {
	whole
	t      *redistest.Run
	ttl    time.Duration
	server server
	ways   []*way
	store  driver.Store  // the trial's own, which no fault of the network hits
	asked  atomic.Uint64 // versions that probes have raised

	forget  func() // deletes the data of the server, which may be down then
	compact func() // drops old revisions; nil: there are none
}

func newEtcd(t *redistest.Run, c Config) bed {
	server := etcdtest.Start(t)
	b := &coordinator{t: t, ttl: c.ttl, server: server, forget: func() { server.Forget(t) }}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Addr()}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatalf("%w", err)
	}
	t.Cleanup(func() { _ = client.Close() })
	b.compact = func() {
		ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
		defer cancel()
		if r, err := client.Get(ctx, probeKey); err == nil { // another fault may have hit the server
			_, _ = client.Compact(ctx, r.Header.Revision)
		}
	}
	return b.connect(c, server.Addr())
}

func newZooKeeper(t *redistest.Run, c Config) bed {
	server := zktest.Start(t)
	b := &coordinator{t: t, ttl: c.ttl, server: server, forget: func() {
		server.Kill()
		server.Forget(t)
	}}
	return b.connect(c, server.Addr())
}

func (b *coordinator) connect(c Config, addr string) bed {
	b.ways = waysTo(b.t, c, addr)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var err error
	if b.store, err = storeurl.Open(ctx, member.Process{Topology: c.Topology, Addrs: []string{addr}}.URL()); err != nil {
		b.t.Fatalf("%w", err)
	}
	b.t.Cleanup(func() { _ = b.store.Close() })
	return b
}

func (b *coordinator) attach(p *member.Process, place int) { p.Addrs = []string{b.ways[place].Addr()} }

func (b *coordinator) probe(ctx context.Context, _ int) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	_, err := b.store.AdvanceVersion(ctx, probeKey, b.asked.Add(1), time.Hour)
	return err
}

// leftovers are holders and waiters in force.
func (b *coordinator) leftovers(ctx context.Context) (left []string, err error) {
	for cursor := ""; ; {
		page, next, err := b.store.List(ctx, driver.Listing{Cursor: cursor, Limit: 100, Records: true})
		if err != nil {
			return nil, err
		}
		for _, lock := range page {
			for _, h := range lock.Holders {
				left = append(left, fmt.Sprintf("%s of %s", lock.Key, h.Owner))
			}
			for _, w := range lock.Waiters {
				left = append(left, fmt.Sprintf("%s wanted by %s", lock.Key, w.Owner))
			}
		}
		if cursor = next; cursor == "" {
			return left, nil
		}
	}
}

func (b *coordinator) faults() []fault {
	all := outages(b.t, b.ttl, b.server, b.forget)
	if b.compact != nil {
		all = append(all, on("compact", false, func(s *stroke) {
			for range 10 {
				b.compact()
				s.lasts(b.ttl/20, b.ttl/5)
			}
		}))
	}
	// Old requests mean nothing on another connection.
	return append(all, slices.DeleteFunc(tangles(b.ways, b.ttl), func(f fault) bool { return f.name == "duplicate" })...)
}
