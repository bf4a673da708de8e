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

// keeper is one server that keeps its data: a PostgreSQL, an etcd, or a ZooKeeper. Each process has a way to it of
// its own.
type keeper struct {
	whole
	t      *redistest.Run
	ttl    time.Duration
	server server
	ways   []*way
	store  driver.Store  // the trial's own, which no fault of the network hits
	asked  atomic.Uint64 // versions that probes have raised

	erase func()                   // deletes the data of the server, which may be down then
	more  []fault                  // of this kind of server
	at    func(addr string) string // how a process says where it is
}

func newEtcd(t *redistest.Run, c Config) bed {
	server := etcdtest.Start(t)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Addr()}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatalf("%w", err)
	}
	t.Cleanup(func() { _ = client.Close() })
	compact := on("compact", false, func(s *stroke) {
		for range 10 {
			ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
			if r, err := client.Get(ctx, probeKey); err == nil { // another fault may have hit the server
				_, _ = client.Compact(ctx, r.Header.Revision)
			}
			cancel()
			s.lasts(c.ttl/20, c.ttl/5)
		}
	})
	b := &keeper{t: t, server: server, erase: func() { server.Forget(t) }, more: []fault{compact}}
	return b.connect(c, server.Addr())
}

func newZooKeeper(t *redistest.Run, c Config) bed {
	server := zktest.Start(t)
	b := &keeper{t: t, server: server, erase: func() {
		server.Kill()
		server.Forget(t)
	}}
	return b.connect(c, server.Addr())
}

func (b *keeper) connect(c Config, addr string) bed {
	b.ttl, b.ways = c.ttl, waysTo(b.t, c, addr)
	if b.at == nil {
		b.at = func(addr string) string { return addr }
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var err error
	if b.store, err = storeurl.Open(ctx, member.Process{Topology: c.Topology, Addrs: []string{b.at(addr)}}.URL()); err != nil {
		b.t.Fatalf("%w", err)
	}
	b.t.Cleanup(func() { _ = b.store.Close() })
	return b
}

func (b *keeper) attach(p *member.Process, place int) { p.Addrs = []string{b.at(b.ways[place].Addr())} }

func (b *keeper) probe(ctx context.Context, _ int) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	_, err := b.store.AdvanceVersion(ctx, probeKey, b.asked.Add(1), time.Hour)
	return err
}

// leftovers are holders and waiters in force.
func (b *keeper) leftovers(ctx context.Context) (left []string, err error) {
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

func (b *keeper) faults() []fault {
	all := append(outages(b.t, b.ttl, b.server, b.erase), b.more...)
	// Old requests mean nothing on another connection.
	return append(all, slices.DeleteFunc(tangles(b.ways, b.ttl), func(f fault) bool { return f.name == "duplicate" })...)
}
