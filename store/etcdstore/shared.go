package etcdstore

import (
	"context"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// sharedLeases are leases for keys that etcd is to keep for a certain time, and then to delete. Many keys share one.
type sharedLeases struct {
	client *clientv3.Client
	mu     sync.Mutex
	leases map[time.Duration]*sharedLease
}

// sharedLease is one of them.
type sharedLease struct {
	turn  chan struct{} // full while somebody uses the rest, which may need an answer of etcd
	id    clientv3.LeaseID
	since time.Time
	keys  int
}

const (
	// sharedPart is the part of a time for which one lease is used. Keys keep longer than
	// asked for by at most that part.
	sharedPart = 16
	// mostKeys is how many keys share a lease: the end of a lease deletes all of them at once.
	mostKeys = 1000
	// mostTimes is how many times have a lease of their own at a time.
	mostTimes = 64
)

func newSharedLeases(client *clientv3.Client) *sharedLeases {
	return &sharedLeases{client: client, leases: make(map[time.Duration]*sharedLease)}
}

// lease returns a lease that lasts for at least keep from now.
func (f *sharedLeases) lease(ctx context.Context, keep time.Duration) (clientv3.LeaseID, error) {
	l := f.of(keep)
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if now := time.Now(); l.id == clientv3.NoLease || l.keys >= mostKeys || now.Sub(l.since) > keep/sharedPart {
		long := keep + keep/sharedPart + time.Second - 1
		r, err := f.client.Grant(ctx, int64(long/time.Second))
		if err != nil {
			return 0, err
		}
		l.id, l.since, l.keys = r.ID, now, 0
	}
	l.keys++
	return l.id, nil
}

func (f *sharedLeases) of(keep time.Duration) *sharedLease {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.leases[keep]
	if l == nil {
		if len(f.leases) >= mostTimes {
			clear(f.leases)
		}
		l = &sharedLease{turn: make(chan struct{}, 1)}
		f.leases[keep] = l
	}
	return l
}

// forget drops all leases, because one of them does not exist any more. That happens if the data of
// etcd was lost or restored.
func (f *sharedLeases) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.leases)
}
