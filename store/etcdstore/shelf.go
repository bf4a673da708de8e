package etcdstore

import (
	"context"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// shelf has leases for keys that are to stay for a certain time, and then to go. Many keys share one.
type shelf struct {
	client *clientv3.Client
	mu     sync.Mutex
	leases map[time.Duration]*shelved
}

// shelved is a lease of a shelf.
type shelved struct {
	turn  chan struct{} // full while somebody uses the rest, which may need an answer of etcd
	id    clientv3.LeaseID
	since time.Time
	keys  int
}

const (
	// sharedPart is the part of a time for which a shelf uses one lease. Keys stay longer than
	// asked for by at most that part.
	sharedPart = 16
	// mostKeys is how many keys share a lease: the end of a lease deletes all of them at once.
	mostKeys = 1000
	// mostShelves is how many times have a lease of their own at a time.
	mostShelves = 64
)

func newShelf(client *clientv3.Client) *shelf {
	return &shelf{client: client, leases: make(map[time.Duration]*shelved)}
}

// lease returns a lease that lasts for at least stay from now.
func (f *shelf) lease(ctx context.Context, stay time.Duration) (clientv3.LeaseID, error) {
	l := f.shelved(stay)
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if now := time.Now(); l.id == clientv3.NoLease || l.keys >= mostKeys || now.Sub(l.since) > stay/sharedPart {
		long := stay + stay/sharedPart + time.Second - 1
		r, err := f.client.Grant(ctx, int64(long/time.Second))
		if err != nil {
			return 0, err
		}
		l.id, l.since, l.keys = r.ID, now, 0
	}
	l.keys++
	return l.id, nil
}

func (f *shelf) shelved(stay time.Duration) *shelved {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.leases[stay]
	if l == nil {
		if len(f.leases) >= mostShelves {
			clear(f.leases)
		}
		l = &shelved{turn: make(chan struct{}, 1)}
		f.leases[stay] = l
	}
	return l
}

// forget drops all leases, because one of them does not exist any more. That happens if the data of
// etcd was lost or restored.
func (f *shelf) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.leases)
}
