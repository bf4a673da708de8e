package redlock

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/keyturn/keyturn/store/redlock/internal/script"
)

// health knows which nodes do not vote. Only nodes that were asked are known.
type health struct {
	mu       sync.Mutex
	errs     []error  // of each node
	runs     []string // the run id of each node's server, once it was met
	abstains []atomic.Bool

	telling sync.Mutex // taken before mu, so that changes are told in their order
	tell    func(error)
}

// met notes the run id of node i. If another node has the same one, both are one server.
func (h *health) met(i int, runID string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for j, other := range h.runs {
		if j != i && other == runID {
			return fmt.Errorf("%w: %d and %d", ErrSameServer, j, i)
		}
	}
	h.runs[i] = runID
	return nil
}

// watch implements driver.Description.OnImpaired.
func (h *health) watch(f func(error)) {
	h.telling.Lock()
	defer h.telling.Unlock()
	h.tell = f
	h.mu.Lock()
	err := errors.Join(h.errs...)
	h.mu.Unlock()
	if err != nil {
		f(err)
	}
}

// changed notes that node i stopped voting, because of err, or votes again. It tells the
// engine if the first node has stopped, or all vote again.
func (h *health) changed(s *Store, i int, err error) {
	h.telling.Lock()
	defer h.telling.Unlock()
	h.mu.Lock()
	before := errors.Join(h.errs...)
	h.errs[i] = nil
	if err != nil {
		h.errs[i] = &NodeError{Node: i, Addr: s.clients[i].Options().Addr, Err: err}
	}
	after := errors.Join(h.errs...)
	h.mu.Unlock()
	if h.tell != nil && (before == nil) != (after == nil) {
		h.tell(after)
	}
}

// voted notes whether node i abstains.
func (h *health) voted(s *Store, i int, b script.Ballot) {
	abstains := b.Outcome == script.Abstain
	if b.Outcome == script.No || h.abstains[i].Load() == abstains || !h.abstains[i].CompareAndSwap(!abstains, abstains) {
		return
	}
	if abstains {
		h.changed(s, i, &AbstainError{Left: b.Left})
	} else {
		h.changed(s, i, nil)
	}
}
