package core

import (
	"container/heap"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/handoff"
)

// watchdog renews the leases of one engine and declares the lost ones lost. It
// is one goroutine with a heap of due times, plus a short-lived one per batch
// of renewals in flight; their number does not grow with that of the leases.
//
// A lease is renewed at a third of its TTL, so that two renewals may fail
// before it is in danger; one that the store gave a shorter term at first, soon
// after the grant. Those due within the next eighth of a TTL go along in
// the same batch: a little early costs nothing, and batches stay few however
// the leases' beginnings are spread.
type watchdog struct {
	store     driver.Store
	storeName string
	hooks     *hooks
	answered  func([]Claim, error) // told what came of each renewal
	parts     func([]Claim) string // of the store, that claims depend on
	clock     clock

	mu       sync.Mutex
	heap     leaseHeap
	drift    time.Duration // the clock's, when last looked at
	identity identity
	started  bool
	look     time.Time     // when it looks next; zero: now
	busy     bool          // there were leases since the last look
	wake     chan struct{} // something is due before that
	stop     chan struct{}
	running  sync.WaitGroup
}

// heartbeat is how often the watchdog looks at the clocks while it has leases:
// the timers stand still in a suspended machine, and go on where they were.
const heartbeat = time.Second

// suspendNoticed is the drift from one look to the next that can't be the
// slewing of a clock being set right.
const suspendNoticed = 100 * time.Millisecond

func newWatchdog(e *Engine) *watchdog {
	w := &watchdog{
		store:     e.store,
		storeName: e.name,
		hooks:     e.hooks,
		answered:  e.circuit.Learn,
		parts:     e.circuit.Parts,
		clock:     newClock(),
		wake:      make(chan struct{}, 1),
		stop:      make(chan struct{}),
	}
	w.identity.log = &e.log
	if s, ok := e.store.(driver.Identified); ok {
		w.identity.ask = s.Identity
	}
	return w
}

// begin counts the first term of a lease that is not in the heap yet, for those who
// look at it before.
func (w *watchdog) begin(l *Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l.deadline.begin(l.grant, &w.clock)
}

// add takes a lease in. It reports false, and leaves it out, when its time is
// over already.
func (w *watchdog) add(l *Lease, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := &l.deadline
	l.granted = now
	if d.at.IsZero() {
		d.begin(l.grant, &w.clock)
	}
	if reason := d.lossAt(now, &w.clock); reason != "" {
		w.drop(l, l.lossError(reason))
		return false
	}
	if l.terms.maxHold > 0 {
		d.holdUntil = now.Add(l.terms.maxHold)
	}
	d.schedule()
	heap.Push(&w.heap, l)
	w.busy = true
	if !w.started {
		w.started = true
		w.drift = d.drift
		w.running.Go(w.run)
	}
	if d.next.Before(w.look) || now.Add(heartbeat).Before(w.look) {
		w.poke()
	}
	return true
}

// remove takes a lease out, for its release, and returns what of it there is to be
// handed on. The error says that it was lost before.
func (w *watchdog) remove(l *Lease) (heritage, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.checkLocked(l); err != nil {
		return heritage{}, err
	}
	w.drop(l, ErrReleased)
	return l.heritage(), nil
}

// correct notes a loss that came out in the release.
func (w *watchdog) correct(l *Lease, lost error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l.deadline.ended = lost
}

// check reports whether the lease has ended, by the clock of this moment.
func (w *watchdog) check(l *Lease) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.checkLocked(l)
}

func (w *watchdog) checkLocked(l *Lease) error {
	if l.deadline.ended == nil {
		if reason := l.deadline.lossAt(time.Now(), &w.clock); reason != "" {
			w.drop(l, l.lossError(reason))
		}
	}
	return l.deadline.ended
}

// lose declares a lease lost, if it has not ended otherwise.
func (w *watchdog) lose(l *Lease, lost *LeaseLostError) {
	w.mu.Lock()
	if l.deadline.ended == nil {
		w.drop(l, lost)
	}
	err := l.deadline.ended
	w.mu.Unlock()
	if errors.Is(err, ErrLeaseLost) {
		l.end(err)
	}
}

func (w *watchdog) deadlineOf(l *Lease) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return l.deadline.at
}

// current is the grant with what has changed since it was given.
func (w *watchdog) current(l *Lease) handoff.Grant {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.currentLocked(l)
}

func (w *watchdog) currentLocked(l *Lease) handoff.Grant {
	g := l.grant
	g.TTL, g.Claims = l.deadline.ttl, l.deadline.claims
	return g
}

// close stops the goroutine and waits for renewals in flight.
func (w *watchdog) close() {
	close(w.stop)
	w.running.Wait()
}

func (w *watchdog) run() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-w.stop:
			return
		case <-w.wake:
		case <-timer.C:
		}
		due, lost, next, identify := w.collect()
		if identify {
			w.running.Go(func() { w.recognize(ctx) })
		}
		for _, l := range lost {
			l.end(w.check(l))
		}
		for _, batch := range batches(due) {
			w.running.Go(func() { w.renew(ctx, batch) })
		}
		timer.Reset(time.Until(next))
	}
}

// collect takes from the heap what is due for renewal and what is lost, and
// says when to look again, and whether to ask who the server is.
func (w *watchdog) collect() (due []renewal, lost []*Lease, next time.Time, identify bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	drift := w.clock.drift(now)
	if drift-w.drift > suspendNoticed {
		// Time passed that no timer saw. Any lease may be over, wherever it
		// stands in the heap.
		for _, l := range w.heap {
			l.deadline.next = now
		}
	}
	w.drift = drift
	for len(w.heap) > 0 {
		l := w.heap[0]
		d := &l.deadline
		if reason := d.lossAt(now, &w.clock); reason != "" {
			w.drop(l, l.lossError(reason))
			lost = append(lost, l)
			continue
		}
		renew := d.dueBy(now) || len(due) > 0 && d.joins(now)
		if !renew && d.next.After(now) {
			break
		}
		if renew {
			d.renewing = true
			due = append(due, w.renewalOf(l, now))
		}
		d.schedule()
		heap.Fix(&w.heap, 0)
	}
	// With leases the heart beats, and once more when the heap has run empty: a caller
	// who takes one lease after the other would else wake the goroutine for each,
	// which costs more than the lease.
	sleep := time.Hour // add wakes it
	if len(w.heap) > 0 {
		sleep = min(w.heap[0].deadline.next.Sub(now), heartbeat)
	} else if w.busy {
		sleep = heartbeat
	}
	w.busy = false
	w.look = now.Add(sleep)
	return due, lost, w.look, w.identity.due(now, len(w.heap))
}

// drop takes a lease out of the heap for good.
func (w *watchdog) drop(l *Lease, why error) {
	d := &l.deadline
	d.ended = why
	d.free()
	d.signal()
	if d.index >= 0 {
		heap.Remove(&w.heap, d.index)
	}
}

// poke has the watchdog look at the heap again.
func (w *watchdog) poke() {
	select {
	case w.wake <- struct{}{}:
	default: // a look is coming anyway
	}
}
