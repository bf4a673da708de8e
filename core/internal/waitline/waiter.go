package waitline

import (
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/handoff"
)

// Waiter is one caller with its places: one in the line of each key that it wants. The
// caller fills in the first fields, and calls [Waiter.Want], before [Lines.Enter]. The zero
// value wants nothing.
type Waiter struct {
	Since   time.Time     // the beginning of the call
	MaxWait time.Duration // in line, from Since; 0: no bound
	Once    bool          // a record of the execution will do as well as the lease
	HeirTTL time.Duration // the TTL with which it takes a lease that is handed on; 0: it takes none
	Trace   string        // shown to those that it keeps waiting

	// Waited says that the caller had to wait in line.
	Waited bool
	// Got is what the caller was given in line, by another caller. Where it was given
	// nothing and asks the store, the caller puts the store's answer there.
	Got Got

	places []*place
	place  place // the only one
	only   [1]*place
}

// Got is what a caller came to: a lease, a record, or the zero value.
type Got struct {
	Record *driver.Record
	Grant  handoff.Grant
	From   string // the trace of the caller that had the grant before
}

// Nothing reports whether it is the zero value.
func (g *Got) Nothing() bool { return g.Record == nil && g.Grant.Owner == "" }

// Want says which claims the caller wants, in key order.
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

// placeFor is the place for key, or nil: a store need not say which key is held.
func (w *Waiter) placeFor(key string) *place {
	for _, p := range w.places {
		if p.claim.Key == key {
			return p
		}
	}
	return nil
}

// place is where a caller stands in one line.
type place struct {
	waiter *Waiter
	claim  driver.Claim
	shard  *shard // nil: it has never stood in line
	line   *line  // nil: it does not stand in line
	ahead  int    // callers in front when it joined
	joined time.Time
	until  time.Time     // when it gives up; zero: never
	goOn   chan struct{} // closed when the caller is to go on; nil: it need not wait

	wentOn    bool // goOn is closed
	late      bool // because it has waited long enough, or the lines were closed
	called    bool // forward
	elsewhere bool // called forward, and waits for another of its keys
	asking    bool // it asked the store, which has said nothing

	before, behind *place // in the queue
}

// wake has the caller go on.
func (p *place) wake() {
	if p.goOn != nil && !p.wentOn {
		p.wentOn = true
		close(p.goOn)
	}
}

// giveUp tells the caller that it has waited long enough.
func (p *place) giveUp() {
	if p.goOn != nil && !p.wentOn {
		p.late = true
		p.wake()
	}
}
