package natsstore

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/keyturn/keyturn/internal/waitloop"
)

// hearing finds out whether messages reach this process: it sends some to itself. The servers tell a user that may not
// publish or subscribe nothing that a request would learn of. Its waiters would then sleep for a third of their
// waiter lease at each turn of theirs, and everybody behind them would wait for that.
type hearing struct {
	log  *slog.Logger
	last atomic.Int64 // when a message to itself came, in Unix nanoseconds
	deaf atomic.Bool

	mu     sync.Mutex // held while the engine is told: it is told of one change at a time
	tell   func(error)
	reason error
}

const (
	// helloEvery is how often a process sends a message to itself.
	helloEvery = 2 * time.Second
	// deafHelloEvery is the same for a deaf process. Most often it may not send them, and the server logs each one.
	deafHelloEvery = 30 * time.Second
	// mostUnheard is after how many of them that did not come it counts as deaf. Time alone does not tell: the
	// process may have been stopped.
	mostUnheard = 3
	// deafPause is how often a waiter asks that no message reaches.
	deafPause = 150 * time.Millisecond
)

// watch is the OnImpaired of the store's description.
func (h *hearing) watch(f func(error)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tell = f
	if h.reason != nil {
		f(h.reason)
	}
}

// becomes notes whether the process is deaf, and says what has changed. last is what the server said to the
// connection.
func (h *hearing) becomes(deaf bool, subject string, last error) {
	if h.deaf.Swap(deaf) == deaf {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reason = nil
	if deaf {
		h.reason = fmt.Errorf("natsstore: no messages to %s arrive, so its waiters ask every %v", subject, deafPause)
		if denies(last, subject) {
			h.reason = fmt.Errorf("%w: %w", h.reason, last)
		}
		h.log.Error("keyturn: no messages arrive: the waiters of this process poll, which slows down all", "error", h.reason,
			"advice", "let the user publish to, and subscribe to, the subjects of operations-nats.md")
	} else {
		h.log.Info("keyturn: messages arrive again")
	}
	if h.tell != nil {
		h.tell(h.reason)
	}
}

// greeting says when a process has sent its last message to itself, which one it has heard, and how many have not come
// since.
type greeting struct {
	sent    time.Time
	heard   int64
	unheard int
}

// greet sends the process a message now and then, and notes whether they come. Only one that has come says that the
// process hears again: a new connection alone does not.
func (b *inbox) greet(g *greeting) {
	if !b.nc.IsConnected() {
		return
	}
	every := helloEvery
	if b.hearing.deaf.Load() {
		every = deafHelloEvery
	}
	if heard := b.hearing.last.Load(); heard != g.heard {
		g.heard, g.unheard = heard, 0
		b.hearing.becomes(false, b.subject, nil)
	}
	now := time.Now()
	if now.Sub(g.sent) < every {
		return
	}
	if g.unheard >= mostUnheard {
		b.hearing.becomes(true, b.subject, b.nc.LastError())
	}
	g.sent = now
	g.unheard++
	b.send(b.subject, notice{})
}

// hears sends a message to this process, and reports whether it has come before ctx ends.
func (b *inbox) hears(ctx context.Context) bool {
	before := b.hearing.last.Load()
	b.send(b.subject, notice{})
	for b.hearing.last.Load() == before {
		if !waitloop.Sleep(ctx, 10*time.Millisecond) {
			return false
		}
	}
	return true
}
