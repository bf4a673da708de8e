package waitline

import (
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/handoff"
)

// Waiter is one caller with its places: one in the line of each key that it wants. Before
// [Lines.Enter] the caller sets the first fields and calls [Waiter.Want]. The zero value wants
// nothing.
type Waiter struct {
	Since   time.Time     // the beginning of the call
	MaxWait time.Duration // counts from Since; 0: no bound
	Once    bool          // a record of the execution serves as well as the lease
	HeirTTL time.Duration // the TTL that it wants if a lease is handed on to it; 0: it takes none
	Trace   string        // shown to callers that wait for this one

	// Waited reports whether the caller had to wait in line.
	Waited bool
	// Got is what another caller gave to this one in line. If that is nothing, the caller asks
	// the store and puts the store's answer there.
	Got Got

	places []*place
	place  place // memory for the place of a single claim
	only   [1]*place
}

// Got is what a caller received: a lease, a record, or nothing (the zero value).
type Got struct {
	Record *driver.Record
	Grant  handoff.Grant
	From   string // the trace of the caller that had the grant before
}

// Nothing reports whether it is the zero value.
func (g *Got) Nothing() bool { return g.Record == nil && g.Grant.Owner == "" }

// Want sets the claims that the caller wants, in key order.
func (w *Waiter) Want(claims []driver.Claim) {
	w.only[0] = &w.place
	w.places = w.only[:]
	if n := len(claims); n > 1 {
		all := make([]place, n)
		w.places = make([]*place, n)
		for i := range all {
			w.places[i] = &all[i]
		}
	}
	for i, p := range w.places {
		p.waiter, p.claim = w, claims[i]
	}
}

// placeFor returns the place for key, or nil: a store need not say which key is held.
func (w *Waiter) placeFor(key string) *place {
	for _, p := range w.places {
		if p.claim.Key == key {
			return p
		}
	}
	return nil
}

// place is a caller's position in one line.
type place struct {
	waiter *Waiter
	claim  driver.Claim
	shard  *shard // nil: it has never joined a line
	line   *line  // nil: it is in no line
	ahead  int    // number of callers in front when it joined
	joined time.Time
	until  time.Time     // when it gives up; zero: never
	ready  chan struct{} // closed when the caller need not wait any more; nil: it never had to

	woken          bool // ready is closed
	gaveUp         bool // it was woken because its time was over, or the lines were closed
	admitted       bool // it may ask the store
	waitsElsewhere bool // it was admitted, and waits for another of its keys
	asking         bool // it asked the store, and has no answer yet

	before, behind *place // the neighbours in the queue
}

// wake ends the wait of the caller.
func (p *place) wake() {
	if p.ready != nil && !p.woken {
		p.woken = true
		close(p.ready)
	}
}

// giveUp tells the caller that it has waited long enough.
func (p *place) giveUp() {
	if p.ready != nil && !p.woken {
		p.gaveUp = true
		p.wake()
	}
}
