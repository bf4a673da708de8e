package model

import (
	"fmt"
	"slices"
	"sync"

	"github.com/keyturn/keyturn/core/driver"
)

// told says whether a process must be told that a lease of its own is wanted, or may be.
type told uint8

const (
	mayBe  told = iota + 1 // those that wait may tell it when they ask again, and those that come behind them
	mustBe                 // a request came (W2), or somebody ended it (W3)
)

// tell notes that a request for key came, or comes again.
func (m *backend) tell(key string, t told) {
	k := m.at(key)
	if k.phase != driver.ModeExclusive {
		return // what was downgraded does not linger
	}
	for _, l := range k.holders {
		if l.lingers {
			m.told[l.owner] = max(m.told[l.owner], t)
		}
	}
}

// lingers reports whether the engine asks for a lease of r that may linger.
func (r *request) lingers() bool {
	return len(r.claims) == 1 && r.claims[0].Mode == driver.ModeExclusive && !r.once
}

// ears are the owners of leases that the stores said were wanted.
type ears struct {
	mu    sync.Mutex
	heard map[string]bool
}

// listen makes the stores tell the run, as they would tell an engine.
func (r *run) listen() {
	for _, st := range r.Stores {
		if on := st.Describe().OnWanted; on != nil {
			on(func(key, owner string) {
				r.ears.mu.Lock()
				defer r.ears.mu.Unlock()
				if slices.Contains(r.Keys, key) { // a message about an earlier program may be late
					r.ears.heard[owner] = true
				}
			})
		}
	}
}

// compareTold compares of which leases the stores said that they are wanted (W1 to W3).
func (r *run) compareTold(m *backend) error {
	r.ears.mu.Lock()
	defer r.ears.mu.Unlock()
	for _, a := range r.asked {
		t, heard := m.told[a.owner], r.ears.heard[a.owner]
		switch {
		case heard && t == 0:
			return fmt.Errorf("the store says that %s is wanted, the model does not", r.name(a.owner))
		case !heard && t == mustBe && a.kind == granted && a.said.grant.Lingers:
			return fmt.Errorf("the store did not say that %s is wanted", r.name(a.owner))
		}
	}
	return nil
}
