package etcdstore

import (
	"context"
	"crypto/rand"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/keyturn/keyturn/internal/casstore"
	"github.com/keyturn/keyturn/internal/keystate"
	"github.com/keyturn/keyturn/internal/waitloop"
)

// inbox is where other processes tell this one that a lease of its own is in somebody's way, if its
// engine may keep that lease (core.WithLinger). It is a range of keys that the process watches, from the
// first request for such a lease on. The member key of the lease names the inbox.
type inbox struct {
	s      *Store
	id     string
	wanted casstore.Wanted
	open   sync.Once
	hears  atomic.Bool // messages arrive
}

// The keys of all inboxes begin with it, behind the prefix. No lock's key does, because those begin with
// a brace.
const inboxPart = "inbox/"

const (
	// inboxPing is how often the server is asked for a sign of life. It answers from memory.
	inboxPing = time.Second
	// inboxSilence is after how long without one messages may be missed.
	inboxSilence = 3 * time.Second
)

func newInbox(s *Store) *inbox { return &inbox{s: s, id: rand.Text()} }

// address is where messages reach this process; "": nowhere. The first call begins to listen.
func (b *inbox) address() string {
	if !b.wanted.HasEngine() {
		return ""
	}
	b.open.Do(func() { b.s.calls.Go(b.listen) })
	if !b.hears.Load() {
		return ""
	}
	return b.id
}

// listen passes messages on until the store closes.
func (b *inbox) listen() {
	for stream := int64(-1); ; stream-- { // those of waiters count upwards
		b.follow(stream)
		if b.hears.Swap(false) {
			b.wanted.Tell("", "")
		}
		if !waitloop.Sleep(b.s.life, watchPause) {
			return
		}
	}
}

// follow passes messages on until the watch has broken, or is silent. The client of etcd begins a watch
// again by itself when a connection has broken, and misses nothing; but it does not say for how long it
// has not been able to.
func (b *inbox) follow(stream int64) {
	ctx, cancel := context.WithCancel(onStream(clientv3.WithRequireLeader(b.s.life), stream))
	defer cancel()
	prefix := b.s.cfg.prefix + inboxPart + b.id + "/"
	events := b.s.client.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithFilterDelete(), clientv3.WithCreatedNotify())
	ping, silence := time.NewTicker(inboxPing), time.NewTimer(inboxSilence)
	defer ping.Stop()
	defer silence.Stop()
	for {
		select {
		case r, ok := <-events:
			if !ok || r.Err() != nil {
				return
			}
			silence.Reset(inboxSilence)
			b.hears.Store(true)
			for _, e := range r.Events {
				b.wanted.Tell(string(e.Kv.Value), strings.TrimPrefix(string(e.Kv.Key), prefix))
			}
		case <-ping.C:
			brief, done := context.WithTimeout(ctx, inboxPing/2)
			_ = b.s.client.RequestProgress(brief) // the silence tells
			done()
		case <-silence.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// messageKept is how long a message stays in etcd.
const messageKept = time.Minute

// send tells the engine of a lease that somebody else wants it, in the background. A message that gets lost
// is repeated by a request that waits.
func (s *Store) send(w keystate.Wanted) {
	s.calls.Go(func() {
		ctx, cancel := context.WithTimeout(s.life, s.cfg.waiterLease)
		defer cancel()
		lease, err := s.shared.lease(ctx, messageKept)
		if err != nil {
			return
		}
		_, err = s.client.Put(ctx, s.cfg.prefix+inboxPart+w.Inbox+"/"+w.Owner, w.Key, clientv3.WithLease(lease))
		if isGone(err) {
			s.shared.forget()
		}
	})
}
