package core

import (
	"container/heap"
	"context"
	"errors"
	"math/bits"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/handoff"
)

// renewal is what the store is asked for one lease, and the grant as it was when
// that was decided.
type renewal struct {
	lease   *Lease
	grant   handoff.Grant
	term    time.Duration // in force; a third of it is what the store may take
	convert bool          // the store may have the claims in other modes
	part    string        // of the store: what it depends on
}

// renewalOf is the renewal of l that leaves now. Needs mu.
func (w *watchdog) renewalOf(l *Lease, now time.Time) renewal {
	d := &l.deadline
	g := w.currentLocked(l)
	return renewal{lease: l, grant: g, term: d.worth(now), convert: d.unsettled, part: w.parts(g.Claims)}
}

// batches parts what is due by the length of the term, so that in each the
// longest is less than twice the shortest. A batch has as long as its shortest
// term allows: leases of 30 s together with those of 10 ms would have 3 ms, and
// a store that takes longer would cost them, too. It also parts it by the parts of
// the store that are needed: one that does not answer would else keep the others'
// answers until the batch is given up. What is no plain renewal goes by itself.
func batches(due []renewal) [][]renewal {
	type kind struct {
		part   string
		length int
	}
	var all [][]renewal
	at := make(map[kind]int) // in all
	for _, r := range due {
		k := kind{r.part, bits.Len64(uint64(r.term))}
		i, ok := at[k]
		if !ok || r.convert {
			i = len(all)
			all = append(all, nil)
		}
		if !r.convert {
			at[k] = i
		}
		all[i] = append(all[i], r)
	}
	return all
}

// renew asks the store for one batch. Each lease goes by its own answer.
func (w *watchdog) renew(ctx context.Context, due []renewal) {
	bound := due[0].term
	for _, r := range due {
		bound = min(bound, r.term)
	}
	// A third of it: a store that hangs leaves time for another try.
	ctx, cancel := context.WithTimeout(ctx, bound/3)
	defer cancel()
	sent := time.Now()
	errs := w.send(ctx, due)
	answered := time.Now() // of all, so that those that failed stay together
	for i, r := range due {
		late := w.take(r, sent, answered, errs[i])
		if w.hooks != nil {
			w.hooks.renewed(r.lease, late, errs[i])
		}
	}
}

// send asks the store, and gives one answer for each.
func (w *watchdog) send(ctx context.Context, due []renewal) []error {
	op, asked := "renew", time.Now()
	errs := make([]error, len(due))
	if due[0].convert {
		op = "downgrade"
		errs[0] = w.convert(ctx, due[0])
	} else {
		grants := make([]driver.Grant, len(due))
		for i, r := range due {
			grants[i] = r.grant.Grant
		}
		said := w.store.Renew(ctx, grants)
		for i := range errs {
			errs[i] = errNoAnswer
			if i < len(said) {
				errs[i] = said[i]
			}
		}
	}
	if w.hooks != nil {
		w.hooks.storeCalled(w.storeName, op, time.Since(asked), errors.Join(errs...))
	}
	for i, err := range errs {
		w.answered(due[i].grant.Claims, err)
	}
	return errs
}

var errNoAnswer = errors.New("keyturn: the store gave no answer for this lease")

// take takes in the store's answer about one lease, and says how late after it
// was due the renewal left.
func (w *watchdog) take(r renewal, sent, answered time.Time, err error) (late time.Duration) {
	l := r.lease
	if errors.Is(err, ErrLeaseLost) {
		w.lose(l, l.taken(err))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	d := &l.deadline
	late = max(sent.Sub(d.renewAt), 0)
	if d.ended != nil {
		return late
	}
	d.free()
	d.failed = err != nil
	if err == nil {
		if !d.shared { // or it was carried while an Extend was under way
			d.ttl = r.grant.TTL
		}
		d.unsettled, d.heard = false, sent // by r, if it was: nothing else is under way
		d.extend(min(d.ttl, r.grant.TTL), sent, &w.clock)
	} else {
		d.doubt(r.grant.TTL, sent, &w.clock)
		d.renewAt = answered.Add(min(d.term, d.ttl, r.grant.TTL) / 10)
	}
	w.reschedule(l)
	return late
}

// reserve waits until no renewal of the lease is under way and takes the place of
// the next one, with what alter changes; so the store is never asked for two terms
// at a time, of which nobody could tell which one it took last. The caller owes a
// take. The error is that of a lease that has ended, or ctx's.
func (w *watchdog) reserve(ctx context.Context, l *Lease, alter func(*deadline)) (renewal, error) {
	for {
		r, busy, err := w.tryReserve(l, alter)
		if busy == nil {
			return r, err
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return renewal{}, ctx.Err()
		}
	}
}

// tryReserve gives a channel where it is not done yet: closed when to try again.
func (w *watchdog) tryReserve(l *Lease, alter func(*deadline)) (renewal, <-chan struct{}, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := &l.deadline
	if err := w.checkLocked(l); err != nil {
		return renewal{}, nil, err
	}
	if d.renewing {
		if d.answered == nil {
			d.answered = make(chan struct{})
		}
		return renewal{}, d.answered, nil
	}
	alter(d)
	d.renewing = true
	w.reschedule(l)
	return w.renewalOf(l, time.Now()), nil, nil
}

// reschedule finds the lease its new place in the heap.
func (w *watchdog) reschedule(l *Lease) {
	l.deadline.schedule()
	heap.Fix(&w.heap, l.deadline.index)
	if l.deadline.index == 0 {
		w.poke()
	}
}
