package core

import (
	"container/heap"
	"context"
	"errors"
	"math/bits"
	"slices"
	"sync"
	"time"
)

// watchdog renews the leases of one engine and declares the lost ones lost. It
// is one goroutine with a heap of due times, plus a short-lived one per batch
// of renewals in flight; their number does not grow with that of the leases.
//
// A lease is renewed at a third of its TTL, so that two renewals may fail
// before it is in danger. Those due within the next eighth of a TTL go along in
// the same batch: a little early costs nothing, and batches stay few however
// the leases' beginnings are spread.
type watchdog struct {
	store    Store
	observer Observer
	clock    clock

	mu      sync.Mutex
	heap    leaseHeap
	drift   time.Duration // the clock's, when last looked at
	started bool
	wake    chan struct{} // the heap has a new top
	stop    chan struct{}
	running sync.WaitGroup
}

// deadline is the watchdog's part of a lease, guarded by its mutex.
type deadline struct {
	at        time.Time     // lost when not renewed by then
	drift     time.Duration // the clock's, at the moment at counts from
	renewAt   time.Time
	holdUntil time.Time // zero: no max hold
	next      time.Time // place in the heap: the first of the above that matters
	index     int       // in the heap; -1: out of it
	renewing  bool
	failed    bool  // the last renewal: the next one keeps its distance
	ended     error // nil while in force; the loss, or ErrReleased
}

// heartbeat is how often the watchdog looks at the clocks while it has leases:
// the timers stand still in a suspended machine, and go on where they were.
const heartbeat = time.Second

// suspendNoticed is the drift from one look to the next that can't be the
// slewing of a clock being set right.
const suspendNoticed = 100 * time.Millisecond

func newWatchdog(store Store, observer Observer) *watchdog {
	w := &watchdog{
		store:    store,
		observer: observer,
		clock:    newClock(),
		wake:     make(chan struct{}, 1),
		stop:     make(chan struct{}),
	}
	return w
}

// margin is how much earlier than the backend this side counts a lease as
// over: for the clocks' different speeds, and for the time between a look at
// the clock and the act.
func margin(ttl time.Duration) time.Duration { return ttl/100 + 2*time.Millisecond }

// begin counts the first term of a lease that is not in the heap yet.
func (w *watchdog) begin(l *Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.extend(&l.deadline, l.grant.TTL, l.grant.Since)
}

// add takes a lease in. It reports false, and leaves it out, when its time is
// over already.
func (w *watchdog) add(l *Lease) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	d, now := &l.deadline, time.Now()
	if w.lossAt(l, now) != "" {
		return false
	}
	if l.settings.maxHold > 0 {
		d.holdUntil = now.Add(l.settings.maxHold)
	}
	d.schedule()
	heap.Push(&w.heap, l)
	if !w.started {
		w.started = true
		w.drift = d.drift
		w.running.Go(w.run)
	}
	if d.index == 0 {
		w.poke()
	}
	return true
}

// remove takes a lease out, for its release, and reports whether it was lost
// before.
func (w *watchdog) remove(l *Lease) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.checkLocked(l)
	if err == nil {
		w.drop(l, ErrReleased)
	}
	return err
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
		if reason := w.lossAt(l, time.Now()); reason != "" {
			w.drop(l, l.lossError(reason))
		}
	}
	return l.deadline.ended
}

// lose declares a lease lost, if it has not ended otherwise.
func (w *watchdog) lose(l *Lease, reason LossReason) {
	w.mu.Lock()
	if l.deadline.ended == nil {
		w.drop(l, l.lossError(reason))
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
		due, lost, sleep := w.collect()
		for _, l := range lost {
			l.end(w.check(l))
		}
		for _, batch := range batches(due) {
			w.running.Go(func() { w.renew(ctx, batch) })
		}
		timer.Reset(sleep)
	}
}

// collect takes from the heap what is due for renewal and what is lost, and
// says when to look again.
func (w *watchdog) collect() (due, lost []*Lease, sleep time.Duration) {
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
		if reason := w.lossAt(l, now); reason != "" {
			w.drop(l, l.lossError(reason))
			lost = append(lost, l)
			continue
		}
		renew := d.dueBy(now) || len(due) > 0 && d.joins(now, l.grant.TTL)
		if !renew && d.next.After(now) {
			break
		}
		if renew {
			d.renewing = true
			due = append(due, l)
		}
		d.schedule()
		heap.Fix(&w.heap, 0)
	}
	if len(w.heap) == 0 {
		return due, lost, time.Hour // add wakes it
	}
	return due, lost, min(w.heap[0].deadline.next.Sub(now), heartbeat)
}

func (d *deadline) dueBy(now time.Time) bool { return !d.renewing && !d.renewAt.After(now) }

// joins says whether the lease goes along, early, in a batch that leaves now.
// One whose last renewal failed does not, or it would be tried without pause.
func (d *deadline) joins(now time.Time, ttl time.Duration) bool {
	return !d.failed && d.dueBy(now.Add(ttl/8))
}

// batches parts what is due by the length of the TTL, so that in each the
// longest is less than twice the shortest. A batch has as long as its shortest
// TTL allows: leases of 30 s together with those of 10 ms would have 3 ms, and
// a store that takes longer would cost them, too.
func batches(due []*Lease) [][]*Lease {
	if len(due) == 0 {
		return nil
	}
	var byLength [64][]*Lease
	for _, l := range due {
		n := bits.Len64(uint64(l.grant.TTL))
		byLength[n] = append(byLength[n], l)
	}
	return slices.DeleteFunc(byLength[:], func(b []*Lease) bool { return len(b) == 0 })
}

// renew asks the store for one batch. Each lease goes by its own answer.
func (w *watchdog) renew(ctx context.Context, due []*Lease) {
	grants := make([]Grant, len(due))
	bound := due[0].grant.TTL
	for i, l := range due {
		grants[i] = l.grant
		bound = min(bound, l.grant.TTL)
	}
	// A third of the TTL: a store that hangs leaves time for another try.
	ctx, cancel := context.WithTimeout(ctx, bound/3)
	defer cancel()
	sent := time.Now()
	errs := w.store.Renew(ctx, grants)
	answered := time.Now() // of all, so that those that failed stay together
	for i, l := range due {
		err := errors.New("keyturn: the store gave no answer for this lease")
		if i < len(errs) {
			err = errs[i]
		}
		w.renewed(l, sent, answered, err)
	}
}

// renewed takes in the store's answer about one lease.
func (w *watchdog) renewed(l *Lease, sent, answered time.Time, err error) {
	if errors.Is(err, ErrLeaseLost) {
		w.lose(l, LossTaken)
	}
	w.mu.Lock()
	d := &l.deadline
	late := sent.Sub(d.renewAt)
	if d.ended == nil {
		d.renewing, d.failed = false, err != nil
		if err == nil {
			w.extend(d, l.grant.TTL, sent)
		} else {
			d.renewAt = answered.Add(l.grant.TTL / 10)
		}
		d.schedule()
		heap.Fix(&w.heap, d.index)
		if d.index == 0 {
			w.poke()
		}
	}
	w.mu.Unlock()
	if w.observer != nil {
		w.observer.Renewed(l, max(late, 0), err)
	}
}

// extend counts a new term from the moment before the request was sent: the
// backend's own term begins later, so it ends later.
func (w *watchdog) extend(d *deadline, ttl time.Duration, sent time.Time) {
	d.at = sent.Add(ttl - margin(ttl))
	d.renewAt = sent.Add(ttl / 3)
	d.drift = w.clock.drift(sent)
}

// lossAt says why the lease is over at this moment, or "".
func (w *watchdog) lossAt(l *Lease, now time.Time) LossReason {
	d := &l.deadline
	slept := w.clock.drift(now) - d.drift
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

// drop takes a lease out of the heap for good.
func (w *watchdog) drop(l *Lease, why error) {
	l.deadline.ended = why
	if l.deadline.index >= 0 {
		heap.Remove(&w.heap, l.deadline.index)
	}
}

// poke has the watchdog look at the heap again.
func (w *watchdog) poke() {
	select {
	case w.wake <- struct{}{}:
	default: // a look is coming anyway
	}
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
