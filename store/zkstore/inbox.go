package zkstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/keyturn/keyturn/internal/casstore"
	"github.com/keyturn/keyturn/internal/keystate"
	"github.com/keyturn/keyturn/internal/waitloop"
)

// inbox is where other processes tell this one that a lease of its own is in somebody's way, if its
// engine may keep that lease (core.WithLinger). It is an ephemeral node that the process watches, from the
// first request for such a lease on. The node of the lease names the inbox. Senders add to its data, and
// its owner empties it.
type inbox struct {
	s      *Store
	wanted casstore.Wanted
	open   sync.Once
	id     atomic.Pointer[string] // of its node; nil: messages don't arrive now
}

const inboxesNode = "/i"

// mostUnread bounds the data of an inbox, in bytes. What is beyond gets lost.
const mostUnread = 64 << 10

// deaf is the pause before an inbox is made again.
const deaf = 100 * time.Millisecond

func newInbox(s *Store) *inbox { return &inbox{s: s} }

// address is the node to which messages can be sent now; "": they don't arrive. The first call begins to
// listen.
func (b *inbox) address() string {
	if !b.wanted.HasEngine() {
		return ""
	}
	b.open.Do(func() { b.s.calls.Go(b.listen) })
	if id := b.id.Load(); id != nil {
		return *id
	}
	return ""
}

// listen passes messages on until the store closes. Each session has an inbox of its own.
func (b *inbox) listen() {
	for {
		b.follow()
		if b.id.Swap(nil) != nil {
			b.wanted.Tell("", "")
		}
		if !waitloop.Sleep(b.s.life, deaf) {
			return
		}
	}
}

// follow makes an inbox and passes messages on, until the connection breaks.
func (b *inbox) follow() {
	p, ready, changed, _ := b.s.link.state()
	if !ready {
		return
	}
	id := rand.Text()
	path := b.s.inboxPath(id)
	if err := b.s.makeNode(p, path, zk.FlagEphemeral); err != nil {
		return
	}
	for {
		data, stat, event, err := p.GetW(path)
		if err != nil {
			return
		}
		if len(data) > 0 {
			// An error says that there is more, or that the connection has broken, which GetW says, too.
			if _, err := p.Set(path, nil, stat.Version); err == nil {
				for _, w := range decodeRevocations(data) {
					b.wanted.Tell(w.Key, w.Owner)
				}
			}
			continue
		}
		b.id.Store(&id)
		select {
		case e := <-event:
			if e.Type != zk.EventNodeDataChanged {
				return
			}
		case <-changed:
			return
		case <-b.s.life.Done():
			return
		}
	}
}

func (s *Store) inboxPath(id string) string { return s.cfg.root + inboxesNode + "/" + id }

// revocation is a request to give a lease back that lingers: it is in somebody's way.
type revocation struct {
	Key   string `json:"key"`
	Owner string `json:"owner"`
}

// decodeRevocations reads the data of an inbox: a line for each message.
func decodeRevocations(data []byte) (all []revocation) {
	for line := range bytes.Lines(data) {
		var w revocation
		if json.Unmarshal(line, &w) == nil {
			all = append(all, w)
		}
	}
	return all
}

// send sends a message, in the background. One that gets lost is repeated by a request that waits.
func (s *Store) send(w keystate.Wanted) {
	s.calls.Go(func() {
		ctx, cancel := context.WithTimeout(s.life, casstore.Patience)
		defer cancel()
		_, _ = retry(ctx, s, func(p *peer) (struct{}, error) { return struct{}{}, s.post(p, w) })
	})
}

// post adds a message to an inbox, unless its process has gone.
func (s *Store) post(p *peer, w keystate.Wanted) error {
	path := s.inboxPath(w.Inbox)
	data, stat, err := p.Get(path)
	if errors.Is(err, zk.ErrNoNode) || err == nil && len(data) > mostUnread {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = p.Set(path, append(append(data, encode(revocation{w.Key, w.Owner})...), '\n'), stat.Version)
	return err
}
