// Package wake brings nodes' messages to the waiters of this process. A message is a hint that it is
// a waiter's turn. It may get lost, so no wait rests on it.
package wake

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/internal/waitloop"
)

const (
	// quiet is after how long without a message a subscription is tested.
	quiet = 3 * time.Second
	// pause is how long a subscription that broke is left alone.
	pause = 200 * time.Millisecond
)

// Inbox is the channel of a store, on all nodes. It is safe for concurrent use.
type Inbox struct {
	cfg   Config
	nodes []subscription

	mu      sync.Mutex
	waiters map[string]waitloop.Bell // by owner
}

// subscription is the one to a node, from its first waiter on.
type subscription struct {
	client *redis.Client
	start  sync.Once
	mu     sync.Mutex
	hears  bool
	made   chan struct{} // closed when it hears for the first time
}

// Config is what an inbox needs.
type Config struct {
	Channel string
	Clients []*redis.Client // of the nodes
	Life    context.Context // ends when the store closes
	// Go runs a goroutine that the store waits for.
	Go func(func())
}

// New makes an inbox. It does no I/O.
func New(cfg Config) *Inbox {
	b := &Inbox{cfg: cfg, nodes: make([]subscription, len(cfg.Clients)), waiters: make(map[string]waitloop.Bell)}
	for i := range b.nodes {
		b.nodes[i].client, b.nodes[i].made = cfg.Clients[i], make(chan struct{})
	}
	return b
}

// Ticket is what a node keeps of owner's place in line.
func (b *Inbox) Ticket(owner string) string { return b.cfg.Channel + " " + owner }

// Join registers owner for messages until Leave.
func (b *Inbox) Join(owner string) waitloop.Bell {
	b.mu.Lock()
	defer b.mu.Unlock()
	bell := waitloop.NewBell()
	b.waiters[owner] = bell
	return bell
}

// Leave ends what Join began.
func (b *Inbox) Leave(owner string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waiters, owner)
}

func (b *Inbox) deliver(owner string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiters[owner].Ring() // nil: it has left
}

// Hears reports whether messages of node i arrive, as far as is known.
func (b *Inbox) Hears(i int) bool {
	s := &b.nodes[i]
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hears
}

// Connect subscribes at node i, and waits until that is done, for patience at most.
func (b *Inbox) Connect(ctx context.Context, i int, patience time.Duration) {
	s := &b.nodes[i]
	s.start.Do(func() { b.cfg.Go(func() { s.listen(b.cfg.Life, b) }) })
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-s.made:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// listen delivers messages until life ends.
func (s *subscription) listen(life context.Context, b *Inbox) {
	for life.Err() == nil {
		s.hear(life, b)
		s.set(false)
		waitloop.Sleep(life, pause)
	}
}

// hear delivers the messages of one subscription, until it breaks. Receiving does not end with a
// context, so the end of life closes it.
func (s *subscription) hear(life context.Context, b *Inbox) {
	sub := s.client.Subscribe(life, b.cfg.Channel)
	defer sub.Close()
	defer context.AfterFunc(life, func() { _ = sub.Close() })()
	tested := false
	for life.Err() == nil {
		m, err := sub.ReceiveTimeout(life, quiet)
		if err != nil {
			if tested || !timedOut(err) || sub.Ping(life) != nil {
				return
			}
			tested = true
			continue
		}
		tested = false
		switch m := m.(type) {
		case *redis.Subscription:
			s.set(true)
		case *redis.Message:
			b.deliver(m.Payload)
		}
	}
}

func timedOut(err error) bool {
	t, ok := err.(interface{ Timeout() bool })
	return ok && t.Timeout()
}

func (s *subscription) set(hears bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hears = hears
	if hears {
		select {
		case <-s.made:
		default:
			close(s.made)
		}
	}
}
