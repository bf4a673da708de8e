package waitline

import (
	"context"
	"errors"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Answer is what the store said to a request, and when. The zero value is a store that
// was not asked, or had no time to answer.
type Answer struct {
	Err error // nil: granted
	At  time.Time
}

// Asks notes that a caller that had to wait, or that has several places, now asks the
// store.
func (ls *Lines) Asks(w *Waiter, now time.Time) {
	for _, p := range w.places {
		p.shard.mu.Lock()
		if p.line != nil {
			p.line.admission.comeBack(p)
			p.ask(now)
		}
		p.shard.mu.Unlock()
	}
}

// Verdict says what has kept the caller waiting that was called forward too late.
func (ls *Lines) Verdict(w *Waiter) error { return w.places[len(w.places)-1].verdict() }

// Told notes that the store keeps the caller waiting, and for whom, and returns that as
// [Lines.Holder] does.
func (ls *Lines) Told(w *Waiter, held driver.HeldError) driver.HeldError {
	held = ls.Holder(held)
	at, now := w.placeFor(held.Key), time.Now()
	for _, p := range w.places {
		p.told(held, at, now)
	}
	return held
}

func (p *place) told(held driver.HeldError, at *place, now time.Time) {
	p.shard.mu.Lock()
	defer p.shard.mu.Unlock()
	l := p.line
	if l == nil {
		return
	}
	p.heard(held, at, now)
	if at == nil || at == p {
		l.admission.comeBack(p)
		l.admission.granted = driver.ModeExclusive
	} else if l.admission.goElsewhere(p) {
		l.callForward()
	}
}

// Leave gives up the caller's places, with the store's answer, and calls forward who may
// ask now. It does nothing for a caller without places.
func (ls *Lines) Leave(w *Waiter, said Answer) { ls.leave(w, w.places, said) }

func (ls *Lines) leave(w *Waiter, places []*place, said Answer) {
	var held driver.HeldError // where the key was granted, who is in the way now is not known yet
	var at *place
	if said.Err != nil {
		held = ls.Holder(heldBy(said.Err))
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
		l.beginStreak(p)
	case errors.Is(err, driver.ErrUnavailable):
		l.evidence.outage = err
	default:
		p.heard(held, at, said.At)
	}
	l.remove(p)
	l.callForward()
	p.shard.tidy(p.claim.Key, l)
}

// remove takes p out of its line, which is to be tidied when that is settled.
func (l *line) remove(p *place) {
	p.hangUp()
	if !p.called {
		l.shard.lines.waiting.Add(-1)
	}
	l.admission.leave(p)
	l.queue.remove(p)
	p.line = nil
}

// ask notes that the caller's request was sent.
func (p *place) ask(now time.Time) {
	p.asking = true
	p.line.evidence.asked(now)
}

// hangUp notes that no answer to the caller's request is expected any more.
func (p *place) hangUp() {
	if p.asking {
		p.asking = false
		p.line.evidence.hungUp(p.line.shard.lines.cfg.FairTime)
	}
}

// heard notes an answer of the store's. Held is about the key of at and says nothing of
// others; where at is nil it may be about any.
func (p *place) heard(held driver.HeldError, at *place, now time.Time) {
	if at != nil && at != p {
		held = driver.HeldError{}
	}
	p.hangUp()
	p.line.evidence.heard(held, now)
}

// heldBy is what err says of who is in the way, if anything. (In a function of its own,
// because the target of errors.As is on the heap, also where there is no error.)
func heldBy(err error) driver.HeldError {
	if held := (*driver.HeldError)(nil); errors.As(err, &held) {
		return *held
	}
	return driver.HeldError{}
}
