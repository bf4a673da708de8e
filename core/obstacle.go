package core

import (
	"errors"
	"fmt"
	"time"

	"github.com/keyturn/keyturn/core/internal/circuit"
)

// obstacle says what has kept t waiting. Only a store that was asked can be
// silent, and only since it was: before, t waited for those in front. And one that
// told them to wait owes no further word, however long ago that was: it answers
// when the key is free, or when it finds itself out.
func (ls *lines) obstacle(t *ticket) error {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := t.line
	if l == nil { // it has just been given what it waits for
		return &HeldError{Key: t.claim.Key, Local: true}
	}
	heard := min(time.Since(l.silent), time.Since(t.joined)) // of the silence, by t
	switch {
	case l.outage != nil:
		return l.outage
	case l.unanswered == 0, !l.answered.Before(t.joined), heard < circuit.FairTime && l.silent.After(t.joined):
		held := l.inTheWay(t.claim.Key)
		return &held
	case heard < circuit.FairTime: // however long the caller has waited in other lines
		return &UnavailableError{Op: "acquire", Err: fmt.Errorf("%w, while waiting in line", errHurried)}
	}
	return &UnavailableError{Op: "acquire", Err: errors.New("no answer while waiting in line")}
}

// inTheWay is who keeps the line waiting, as far as anybody in it was told.
func (ls *lines) inTheWay(t *ticket) HeldError {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if t.line == nil { // it has just been given what it waits for
		return HeldError{Key: t.claim.Key, Local: true}
	}
	return t.line.inTheWay(t.claim.Key)
}

func (l *line) inTheWay(key string) HeldError {
	return HeldError{Key: key, Holder: l.held.Holder, RetryAfter: l.held.RetryAfter, HeldFor: l.heldFor(), Trace: l.held.Trace, Local: true}
}

// heldFor is how long whoever is in the way has been there.
func (l *line) heldFor() time.Duration {
	if l.heldSince.IsZero() {
		return 0
	}
	return time.Since(l.heldSince)
}

// told notes that the store keeps the caller waiting, and for whom, and returns
// that as far as it is known better here.
func (ls *lines) told(p places, held HeldError) HeldError {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	held = ls.inHand(held)
	at, now := p.of(held.Key), time.Now()
	for _, t := range p {
		t.heard(held, at, now)
		if at == nil || at == t {
			t.comeBack()
			t.line.open = ModeExclusive
		} else {
			t.goElsewhere()
		}
	}
	return held
}

// inHand is held with the trace of who has the key now, and since when, where that
// is another one of this process than the store was told of: the lease went from
// hand to hand since. Needs mu.
func (ls *lines) inHand(held HeldError) HeldError {
	if l := ls.byKey[held.Key]; l != nil && l.streak.owner != "" && l.streak.owner == held.Holder {
		held.Trace, held.HeldFor = l.streak.trace, l.heldFor()
	}
	return held
}

// holder is inHand for who does not wait.
func (ls *lines) holder(held HeldError) HeldError {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.inHand(held)
}

// of is the place for key, or nil: a store need not say which key is held.
func (p places) of(key string) *ticket {
	for _, t := range p {
		if t.claim.Key == key {
			return t
		}
	}
	return nil
}

// heard notes an answer of the store's. Held is about at's key and says nothing
// of others; where at is nil it may be about any.
func (t *ticket) heard(held HeldError, at *ticket, now time.Time) {
	if at != nil && at != t {
		held = HeldError{}
	}
	l := t.line
	t.hangUp()
	l.answered, l.held, l.outage, l.silent = now, held, nil, time.Time{}
	l.heldSince = time.Time{}
	if held.HeldFor > 0 {
		l.heldSince = now.Add(-held.HeldFor)
	}
	if l.unanswered > 0 {
		l.silent = l.answered
	}
}

// ask notes that t's request was sent.
func (t *ticket) ask(now time.Time) {
	t.asking = true
	t.line.unanswered++
	if t.line.silent.IsZero() {
		t.line.silent = now
	}
}

// hangUp says that no answer to t's request is to be expected any more. That is
// not the end of a silence which is one by now.
func (t *ticket) hangUp() {
	if !t.asking {
		return
	}
	l := t.line
	t.asking = false
	l.unanswered--
	if l.unanswered == 0 && time.Since(l.silent) < circuit.FairTime {
		l.silent = time.Time{}
	}
}

// heldBy is what err says of who is in the way, if anything.
func heldBy(err error) HeldError {
	if held := (*HeldError)(nil); errors.As(err, &held) {
		return *held
	}
	return HeldError{}
}
