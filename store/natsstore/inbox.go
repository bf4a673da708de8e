package natsstore

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"github.com/keyturn/keyturn/internal/casstore"
	"github.com/keyturn/keyturn/internal/waitloop"
)

// inbox is a subject of the store's own, where other processes tell it that a waiter was let in, or that a
// lease is in somebody's way.
type inbox struct {
	nc      *nats.Conn
	subject string
	sub     *nats.Subscription
	wanted  casstore.Wanted
	hearing hearing

	mu      sync.Mutex
	waiters map[string]waitloop.Bell // by owner
}

// notice is a message to an inbox. Without a key it wakes a waiter, otherwise a lease is wanted. Without both it is
// the process's own.
type notice struct {
	Key   string `json:"key,omitempty"`
	Owner string `json:"owner,omitempty"`
}

// listen makes an inbox. Its goroutine ends with the store.
func listen(s *Store) (*inbox, error) {
	b := &inbox{nc: s.nc, subject: "keyturn." + s.cfg.bucket + "." + nuid.Next(), waiters: make(map[string]waitloop.Bell)}
	b.hearing.log = s.cfg.log
	sub, err := s.nc.Subscribe(b.subject, b.receive)
	if err != nil {
		return nil, err
	}
	b.sub = sub
	s.calls.Go(func() { b.watch(s) })
	return b, nil
}

// watchPause is how often the store looks whether messages may have been lost.
const watchPause = 500 * time.Millisecond

// watch has everybody ask after the connection was away, or when messages came faster than they were taken, and
// finds out whether any come. The client's own channels for that belong to the whole connection, and drop what
// nobody takes at once.
func (b *inbox) watch(s *Store) {
	ticker := time.NewTicker(watchPause)
	defer ticker.Stop()
	var before uint64
	var dropped int
	var hello greeting
	for {
		select {
		case <-ticker.C:
		case <-s.life.Done():
			return
		}
		now := b.nc.Stats().Reconnects
		lost, err := b.sub.Dropped()
		if now != before || err == nil && lost != dropped {
			b.missed()
		}
		if now != before {
			hello = greeting{heard: hello.heard} // those under way are lost
		}
		before, dropped = now, lost
		b.greet(&hello)
	}
}

// address is where messages reach this process. "" tells those behind it that it may not be able to send any either.
func (b *inbox) address() string {
	if b.hearing.deaf.Load() {
		return ""
	}
	return b.subject
}

// arrives reports whether messages reach this process now, and its engine wants them.
func (b *inbox) arrives() bool {
	return b.wanted.HasEngine() && b.nc.IsConnected() && !b.hearing.deaf.Load()
}

func (b *inbox) receive(m *nats.Msg) {
	var n notice
	switch {
	case json.Unmarshal(m.Data, &n) != nil:
	case n.Key != "":
		b.wanted.Tell(n.Key, n.Owner)
	case n.Owner == "":
		b.hearing.last.Store(time.Now().UnixNano())
	default:
		b.mu.Lock()
		b.waiters[n.Owner].Ring()
		b.mu.Unlock()
	}
}

// missed has everybody ask who would have had to be told.
func (b *inbox) missed() {
	b.wanted.Tell("", "")
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, bell := range b.waiters {
		bell.Ring()
	}
}

func (b *inbox) join(owner string, bell waitloop.Bell) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiters[owner] = bell
}

func (b *inbox) leave(owner string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waiters, owner)
}

// send sends a message that may get lost: who waits asks by itself, too.
func (b *inbox) send(subject string, n notice) {
	if subject == "" {
		return
	}
	text, err := json.Marshal(n)
	if err == nil {
		_ = b.nc.Publish(subject, text)
	}
}
