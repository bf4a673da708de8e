package etcdstore

import (
	"context"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// lease is a lease of etcd that keeps keys of one acquisition.
type lease struct {
	id  clientv3.LeaseID
	ttl time.Duration
	// since is a moment before etcd was last asked to keep the lease for another ttl, and did.
	since time.Time
	used  bool // a transaction that names it was sent
}

// pool has idle leases. Nothing is attached to them, and nobody renews them, so those that are not
// taken soon run out. Without the pool each acquisition would cost the cluster two more writes: one
// to make its lease, and one to end it.
type pool struct {
	client *clientv3.Client
	mu     sync.Mutex
	idle   map[time.Duration][]lease // by ttl; the last is the youngest
}

const (
	// mostIdle is how many idle leases of one TTL are kept.
	mostIdle = 256
	// freshPart is the part of its TTL after which an idle lease is not used any more.
	freshPart = 4
)

func newPool(client *clientv3.Client) *pool {
	return &pool{client: client, idle: make(map[time.Duration][]lease)}
}

// take returns an idle lease, of which at least three quarters are left, or a new one.
func (p *pool) take(ctx context.Context, ttl time.Duration) (*lease, error) {
	p.mu.Lock()
	idle := p.idle[ttl]
	if n := len(idle); n > 0 {
		l := idle[n-1]
		if time.Since(l.since) < ttl/freshPart {
			p.idle[ttl] = idle[:n-1]
			p.mu.Unlock()
			return &l, nil
		}
		delete(p.idle, ttl) // the others are older
	}
	p.mu.Unlock()
	return p.grant(ctx, ttl)
}

// grant returns a new lease, whose TTL is longer if the server grants no shorter one.
func (p *pool) grant(ctx context.Context, ttl time.Duration) (*lease, error) {
	since := time.Now()
	r, err := p.client.Grant(ctx, int64(ttl/time.Second))
	if err != nil {
		return nil, err
	}
	return &lease{id: r.ID, ttl: time.Duration(r.TTL) * time.Second, since: since}, nil
}

// forget drops all idle leases, because one of them does not exist any more: see [sharedLeases.forget].
func (p *pool) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.idle)
}

// put takes back a lease to which nothing is attached, and which no request that is under way names.
func (p *pool) put(l *lease) {
	if time.Since(l.since) >= l.ttl/freshPart {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	idle := p.idle[l.ttl]
	if len(idle) >= mostIdle {
		return
	}
	idle = append(idle, lease{id: l.id, ttl: l.ttl, since: l.since})
	for i := len(idle) - 1; i > 0 && idle[i].since.Before(idle[i-1].since); i-- {
		idle[i], idle[i-1] = idle[i-1], idle[i]
	}
	p.idle[l.ttl] = idle
}
