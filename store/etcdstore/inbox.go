package etcdstore

import (
	"context"
	"crypto/rand"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/keyturn/keyturn/internal/keystate"
)

// The keys of all inboxes begin with it, behind the prefix. No lock's key does, because those begin with
// a brace.
const inboxPart = "inbox/"

const (
	// inboxPing is how often the server is asked for a sign of life. It answers from memory.
	inboxPing = time.Second
	// inboxSilence is after how long without one messages may be missed.
	inboxSilence = 3 * time.Second
)

// follower returns the Follow of [casstore.Inbox]. The inbox is a range of keys that the process watches.
func (s *Store) follower() func(hears func(address string)) {
	id, stream := rand.Text(), int64(0)
	return func(hears func(address string)) {
		stream-- // those of waiters count upwards
		s.followInbox(stream, s.cfg.prefix+inboxPart+id+"/", func() { hears(id) })
	}
}

// followInbox passes messages on until the watch has broken, or is silent. The client of etcd begins a watch
// again by itself when a connection has broken, and misses nothing; but it does not say for how long it
// has not been able to.
func (s *Store) followInbox(stream int64, prefix string, hears func()) {
	ctx, cancel := context.WithCancel(onStream(clientv3.WithRequireLeader(s.life), stream))
	defer cancel()
	events := s.client.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithFilterDelete(), clientv3.WithCreatedNotify())
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
			hears()
			for _, e := range r.Events {
				s.inbox.Tell(string(e.Kv.Value), strings.TrimPrefix(string(e.Kv.Key), prefix))
			}
		case <-ping.C:
			brief, done := context.WithTimeout(ctx, inboxPing/2)
			_ = s.client.RequestProgress(brief) // the silence tells
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
