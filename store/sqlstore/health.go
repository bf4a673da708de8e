package sqlstore

import (
	"fmt"
	"sync"
)

// health tells the engine when messages do not arrive, and when they do again.
type health struct {
	waker Waker

	mu       sync.Mutex // held while the engine is told: it is told of one change at a time
	tell     func(error)
	impaired bool // as it was told
}

// watch is the OnImpaired of the store's description.
func (h *health) watch(f func(error)) {
	h.mu.Lock()
	h.tell, h.impaired = f, false
	h.mu.Unlock()
	h.look()
}

// look tells the engine if something has changed.
func (h *health) look() {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := h.waker.Server()
	if h.tell == nil || (err != nil) == h.impaired {
		return
	}
	h.impaired = err != nil
	if err != nil {
		err = fmt.Errorf("sqlstore: no messages arrive, waiters poll: %w", err)
	}
	h.tell(err)
}
