package etcdstore

import (
	"context"
	"crypto/rand"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/waitloop"
)

// inbox is where other processes tell this one that a lease of its own is in somebody's way, if its
// engine may keep that lease (core.WithLinger). It is a range of keys that the process watches, from the
// first request for such a lease on. The member key of the lease names the inbox.
type inbox struct {
	s      *Store
	id     string
	wanted atomic.Pointer[func(key, owner string)]
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

// onWanted is the OnWanted of the store's description.
func (b *inbox) onWanted(f func(key, owner string)) { b.wanted.Store(&f) }

// tell tells the engine that a lease is wanted, or that messages may have been missed.
func (b *inbox) tell(key, owner string) {
	if f := b.wanted.Load(); f != nil {
		(*f)(key, owner)
	}
}

// ready reports whether messages reach this process. The first call begins to listen.
func (b *inbox) ready() bool {
	if b.wanted.Load() == nil {
		return false
	}
	b.open.Do(func() { b.s.calls.Go(b.listen) })
	return b.hears.Load()
}

// listen passes messages on until the store closes.
func (b *inbox) listen() {
	for stream := int64(-1); ; stream-- { // those of waiters count upwards
		b.follow(stream)
		if b.hears.Swap(false) {
			b.tell("", "")
		}
		if !waitloop.Sleep(b.s.life, blind) {
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
				b.tell(string(e.Kv.Value), strings.TrimPrefix(string(e.Kv.Key), prefix))
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

// want is a message that a lease is in somebody's way.
type want struct{ inbox, key, owner string }

// lingers reports whether the engine of the lease may keep it, and wants to know who else wants it.
func (m *member) lingers() bool { return m.Inbox != "" && m.Mode == driver.ModeExclusive }

// want is the message to the holder of l, if its lease lingers.
func (l *lock) want() []want {
	for _, m := range l.members {
		if !m.waits() && m.lingers() {
			return []want{{m.Inbox, l.key, m.owner}}
		}
	}
	return nil
}

// wantStays is how long a message stays in etcd.
const wantStays = time.Minute

// send sends messages, in the background. One that gets lost is repeated by a request that waits.
func (s *Store) send(wants []want) {
	if len(wants) == 0 {
		return
	}
	s.calls.Go(func() {
		ctx, cancel := context.WithTimeout(s.life, s.cfg.waiterLease)
		defer cancel()
		for _, w := range wants {
			lease, err := s.shelf.lease(ctx, wantStays)
			if err != nil {
				return
			}
			_, err = s.client.Put(ctx, s.cfg.prefix+inboxPart+w.inbox+"/"+w.owner, w.key, clientv3.WithLease(lease))
			if isGone(err) {
				s.shelf.forget()
			}
		}
	})
}
