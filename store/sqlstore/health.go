package sqlstore

import (
	"fmt"
	"log/slog"
	"sync"
)

// health says when messages do not arrive, and when they do again: in the log, and to the engine.
type health struct {
	waker Waker
	log   *slog.Logger

	mu     sync.Mutex // held while the engine is told: it is told of one change at a time
	tell   func(error)
	reason error // why no messages arrive, as was said; nil: they do
}

// watch is the OnImpaired of the store's description.
func (h *health) watch(f func(error)) {
	h.mu.Lock()
	h.tell = f
	if h.reason != nil {
		f(h.reason)
	}
	h.mu.Unlock()
	h.look()
}

// look says what has changed.
func (h *health) look() {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := h.waker.Server()
	if (err != nil) == (h.reason != nil) {
		return
	}
	h.reason = nil
	if err != nil {
		h.reason = fmt.Errorf("sqlstore: no messages arrive, waiters poll: %w", err)
		h.log.Warn("sqlstore: no messages of PostgreSQL arrive, so waiters look for their turn", "error", err)
	} else {
		h.log.Info("sqlstore: messages of PostgreSQL arrive again")
	}
	if h.tell != nil {
		h.tell(h.reason)
	}
}
