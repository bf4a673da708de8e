package waitline

import (
	"context"
	"errors"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Answer is the store's answer to a request, and when it came. The zero value means that the
// store was not asked, or had no time to answer.
type Answer struct {
	Err error // nil: granted
	At  time.Time
}

// Asks notes that the caller now asks the store. It is for a caller that had to wait or has
// several places.
func (ls *Lines) Asks(w *Waiter, now time.Time) {
	for _, p := range w.places {
		p.shard.mu.Lock()
		if p.line != nil {
			p.line.admission.markHere(p)
			p.requestSent(now)
		}
		p.shard.mu.Unlock()
	}
}

// Verdict returns the error for a caller that was admitted too late: it says what kept the caller
// waiting.
func (ls *Lines) Verdict(w *Waiter) error { return w.places[len(w.places)-1].verdict() }

// HeldBy notes that the store makes the caller wait, and for whom. It returns held as
// [Lines.Holder] completes it.
func (ls *Lines) HeldBy(w *Waiter, held driver.HeldError) driver.HeldError {
	held = ls.Holder(held)
	at, now := w.placeFor(held.Key), time.Now()
	for _, p := range w.places {
		p.heldBy(held, at, now)
	}
	return held
}

func (p *place) heldBy(held driver.HeldError, at *place, now time.Time) {
	p.shard.mu.Lock()
	defer p.shard.mu.Unlock()
	l := p.line
	if l == nil {
		return
	}
	p.heard(held, at, now)
	if at == nil || at == p {
		l.admission.markHere(p)
		l.admission.granted = driver.ModeExclusive
	} else if l.admission.markElsewhere(p) {
		l.admitNext()
	}
}

// Leave gives up the caller's places, notes the store's answer, and admits the callers that may
// ask now. It does nothing for a caller without places.
func (ls *Lines) Leave(w *Waiter, said Answer) { ls.leave(w, w.places, said) }

func (ls *Lines) leave(w *Waiter, places []*place, said Answer) {
	var held driver.HeldError // zero after a grant: nobody knows yet who is in the way
	var at *place
	if said.Err != nil {
		held = ls.Holder(holderIn(said.Err))
		at = w.placeFor(held.Key)
	}
	for _, p := range places {
		if p.shard != nil {
			p.leave(held, at, said)
		}
	}
}

func (p *place) leave(held driver.HeldError, at *place, said Answer) {
	p.shard.mu.Lock()
	defer p.shard.mu.Unlock()
	l := p.line
	if l == nil {
		return
	}
	switch err := said.Err; {
	case said.At.IsZero(), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
	case err == nil:
		p.heard(held, at, said.At)
		l.admission.granted = p.claim.Mode
		l.beginStreak(p, said.At)
	case errors.Is(err, driver.ErrUnavailable):
		l.evidence.outage = err
	default:
		p.heard(held, at, said.At)
	}
	l.remove(p)
	l.admitNext()
	p.shard.tidy(p.claim.Key, l)
}

// remove takes p out of its line. The caller of remove tidies the line afterwards.
func (l *line) remove(p *place) {
	p.requestOver()
	if !p.admitted {
		l.shard.lines.waiting.Add(-1)
	}
	l.admission.leave(p)
	l.queue.remove(p)
	p.line = nil
}

// requestSent notes that the caller's request was sent.
func (p *place) requestSent(now time.Time) {
	p.asking = true
	p.line.evidence.requestSent(now)
}

// requestOver notes that nobody waits any more for an answer to the caller's request, which has not
// come.
func (p *place) requestOver() {
	if p.asking {
		p.asking = false
		p.line.evidence.requestOver()
	}
}

// heard notes an answer of the store. held is about the key of at and says nothing of other
// keys. If at is nil, it may be about any key.
func (p *place) heard(held driver.HeldError, at *place, now time.Time) {
	if at != nil && at != p {
		held = driver.HeldError{}
	}
	if p.asking { // the answer ends any silence, so it does not matter how long that lasted
		p.asking = false
		p.line.evidence.unanswered--
	}
	p.line.evidence.heard(held, now)
}

// holderIn returns what err says about the holder, if anything. It is a function of its own
// because the target of errors.As is on the heap, even if there is no error.
func holderIn(err error) driver.HeldError {
	if held := (*driver.HeldError)(nil); errors.As(err, &held) {
		return *held
	}
	return driver.HeldError{}
}
