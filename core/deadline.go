package core

import (
	"time"

	"github.com/keyturn/keyturn/core/internal/handoff"
)

// deadline is the watchdog's part of a lease, guarded by its mutex.
type deadline struct {
	ttl       time.Duration // of a renewal; Extend changes it
	term      time.Duration // the present one's; shorter than ttl at first, for some grants
	claims    []Claim       // in their present modes; Downgrade puts others in place
	unsettled bool          // the store has not said yet that it knows these modes
	at        time.Time     // lost when not renewed by then
	drift     time.Duration // the clock's, at the moment at counts from
	heard     time.Time     // when the store last said that the lease is in force
	renewAt   time.Time
	holdUntil time.Time           // zero: no max hold
	next      time.Time           // place in the heap: the first of the above that matters
	index     int                 // in the heap; -1: out of it
	shared    bool                // another process renews it, too, with this TTL
	least     time.Duration       // the shortest TTL that Extend asked for: the store may have it now, or later; 0: none
	renewing  bool                // a renewal, or what stands for one, is under way
	answered  chan struct{}       // closed when it no longer is; nil: nobody waits
	failed    bool                // the last renewal: the next one keeps its distance
	ended     error               // nil while in force; the loss, or ErrReleased
	done      chan struct{}       // closed when it has ended; nil: nobody asked
	nested    map[*Lease]struct{} // whose done is closed then, too
}

// margin is how much earlier than the backend this side counts a lease as
// over: for the clocks' different speeds, and for the time between a look at
// the clock and the act.
func margin(ttl time.Duration) time.Duration { return ttl/100 + 2*time.Millisecond }

// extend counts a new term from the moment before the request was sent: the
// backend's own term begins later, so it ends later.
func (d *deadline) extend(term time.Duration, sent time.Time, c *clock) {
	d.term = term
	d.at = sent.Add(term - margin(term))
	d.renewAt = sent.Add(term / 3)
	d.drift = c.drift(sent)
}

// firstRenewal is how soon after the grant a lease with a term of its own
// ([Grant.Term]) is renewed: until then the process lives with less tolerance than
// its TTL promises, so it is soon; but most sections are over by then, and cost no
// renewal.
const firstRenewal = 10 * time.Millisecond

// begin counts a grant's first term, of which much may be over.
func (d *deadline) begin(g handoff.Grant, c *clock) {
	d.ttl, d.claims, d.heard = g.TTL, g.Claims, g.Heard
	d.extend(g.PresentTerm(), g.Since, c)
	if g.Term > 0 {
		now := time.Now()
		d.renewAt = now.Add(min(firstRenewal, d.at.Sub(now)/3))
	}
}

// worth is the term as a renewal that leaves now has to reckon with: of a first one
// much may be over.
func (d *deadline) worth(now time.Time) time.Duration {
	if d.term < d.ttl {
		return min(d.term, d.at.Sub(now)*3/2)
	}
	return d.term
}

// doubt notes that nobody knows whether a request for such a term, sent at that
// moment, was carried out. Of the two terms that may be in force at the store the
// shorter counts.
func (d *deadline) doubt(ttl time.Duration, sent time.Time, c *clock) {
	if at := sent.Add(ttl - margin(ttl)); at.Before(d.at) {
		d.at, d.drift = at, c.drift(sent)
	}
}

// free lets those go on who wait for a renewal to be over.
func (d *deadline) free() {
	d.renewing = false
	if d.answered != nil {
		close(d.answered)
		d.answered = nil
	}
}

// lossAt says why the lease is over at this moment, or "".
func (d *deadline) lossAt(now time.Time, c *clock) LossReason {
	slept := c.drift(now) - d.drift
	switch {
	case !now.Before(d.at):
		return LossExpired
	case !now.Add(slept).Before(d.at):
		return LossSuspended
	case !d.holdUntil.IsZero() && !now.Before(d.holdUntil):
		return LossMaxHold
	}
	return ""
}

func (d *deadline) dueBy(now time.Time) bool { return !d.renewing && !d.renewAt.After(now) }

// joins says whether the lease goes along, early, in a batch that leaves now.
// One whose last renewal failed does not, or it would be tried without pause; nor
// does one in its first, short term, which may be over without.
func (d *deadline) joins(now time.Time) bool {
	return !d.failed && d.term >= d.ttl && d.dueBy(now.Add(d.ttl/8))
}

// schedule sets the lease's place in the heap.
func (d *deadline) schedule() {
	d.next = d.at
	if !d.renewing && d.renewAt.Before(d.next) {
		d.next = d.renewAt
	}
	if !d.holdUntil.IsZero() && d.holdUntil.Before(d.next) {
		d.next = d.holdUntil
	}
}

// leaseHeap is a container/heap of leases by deadline.next.
type leaseHeap []*Lease

func (h leaseHeap) Len() int           { return len(h) }
func (h leaseHeap) Less(i, j int) bool { return h[i].deadline.next.Before(h[j].deadline.next) }

func (h leaseHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].deadline.index, h[j].deadline.index = i, j
}

func (h *leaseHeap) Push(x any) {
	l := x.(*Lease)
	l.deadline.index = len(*h)
	*h = append(*h, l)
}

func (h *leaseHeap) Pop() any {
	old := *h
	l := old[len(old)-1]
	old[len(old)-1] = nil // or the array keeps it from the garbage collector
	*h = old[:len(old)-1]
	l.deadline.index = -1
	return l
}
