package zkstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/keyturn/keyturn/internal/casstore"
	"github.com/keyturn/keyturn/internal/keystate"
)

const inboxesNode = "/i"

// mostUnread bounds the data of an inbox, in bytes. What is beyond gets lost.
const mostUnread = 64 << 10

// listen makes an inbox and passes messages on, until the connection breaks: see [casstore.Inbox]. It is an ephemeral
// node that the process watches. Senders add to its data, and its owner empties it. Each session has one of its own.
func (s *Store) listen(hears func(address string)) {
	p, ready, changed, _ := s.link.state()
	if !ready {
		return
	}
	id := rand.Text()
	path := s.inboxPath(id)
	if err := s.makeNode(p, path, zk.FlagEphemeral); err != nil {
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
				for line := range bytes.Lines(data) { // a line for each message
					var w revocation
					if json.Unmarshal(line, &w) == nil {
						s.inbox.Tell(w.Key, w.Owner)
					}
				}
			}
			continue
		}
		hears(id)
		select {
		case e := <-event:
			if e.Type != zk.EventNodeDataChanged {
				return
			}
		case <-changed:
			return
		case <-s.life.Done():
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
