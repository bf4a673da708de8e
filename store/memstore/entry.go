package memstore

import (
	"cmp"
	"slices"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/phasefair"
)

// entry is a key that is held or waited for. If somebody waits, there is also a holder, though
// its time may be over.
type entry struct {
	key     string
	phase   phasefair.Phase
	holders []*holder          // in order of their tokens
	index   map[string]*holder // by owner; nil: there are so few that a search is quicker
	soonest time.Time          // no holder's lease ends before this
	waiting
}

// holder is a lease on one key. It is in force until it expires. After that it may stay in its
// entry until somebody looks.
type holder struct {
	owner, rule, trace string
	token, reserved    uint64 // the tokens after it that are this lease's, too
	since, expires     time.Time
	ttl                time.Duration           // the one that the owner asked for last; a borrower's may not be longer
	partial            bool                    // it belongs to a set that waits for the rest of its claims
	released           bool                    // by its owner; it stays for a while (R6)
	wanted             func(key, owner string) // tells its engine that it is wanted; nil: it does not linger
}

// few is the greatest number of holders of an entry without an index.
const few = 8

func (e *entry) find(owner string) *holder {
	if e.index != nil {
		return e.index[owner]
	}
	for _, h := range e.holders {
		if h.owner == owner {
			return h
		}
	}
	return nil
}

// add adds a holder. Its token must be greater than those of the others.
func (e *entry) add(h *holder, mode driver.Mode) {
	if len(e.holders) == 0 || h.expires.Before(e.soonest) {
		e.soonest = h.expires
	}
	e.phase = e.phase.Entered(mode)
	e.holders = append(e.holders, h)
	switch {
	case e.index != nil:
		e.index[h.owner] = h
	case len(e.holders) > few:
		e.index = make(map[string]*holder, 2*few)
		for _, h := range e.holders {
			e.index[h.owner] = h
		}
	}
}

func (e *entry) remove(h *holder) {
	i, ok := slices.BinarySearchFunc(e.holders, h.token, func(h *holder, token uint64) int { return cmp.Compare(h.token, token) })
	if ok {
		e.holders = slices.Delete(e.holders, i, i+1)
		delete(e.index, h.owner)
	}
}

// stamp gives owner's lease, if there is one, a new token. The token must be greater than those
// of the others.
func (e *entry) stamp(owner string, token uint64, now time.Time) {
	if h := e.find(owner); h != nil && h.token != token {
		e.remove(h)
		h.token, h.since = token, now
		e.add(h, e.phase.Mode)
	}
}

// extend gives h another term, which its owner asked for. It winds the line's timer only if the
// term ends earlier than before. Otherwise the timer fires early, which does no harm: most
// renewals have nobody waiting.
func (e *entry) extend(h *holder, ttl time.Duration, now time.Time) {
	h.ttl, h.expires = ttl, now.Add(ttl)
	if h.expires.Before(e.soonest) {
		e.soonest = h.expires
		e.wind(now)
	}
}

// lend gives h another term, which a borrower asked for. The owner's present term may be
// longer, and then stays.
func (e *entry) lend(h *holder, ttl time.Duration, now time.Time) {
	if expires := now.Add(ttl); expires.After(h.expires) {
		h.expires = expires
	}
}

// place is what decides whose turn it is at the key.
func (e *entry) place() phasefair.Key {
	k := phasefair.Key{Phase: e.phase, Holders: len(e.holders)}
	if w := e.readers.front; w != nil {
		k.Reader, k.LastReader = w.place(), e.readers.back.nr
	}
	if w := e.line.front; w != nil {
		k.Other = w.place()
	}
	return k
}

// sameMode returns an error unless a holder of the key that asks for c has it in that mode.
func (e *entry) sameMode(c driver.Claim) error {
	if e.phase.Mode == c.Mode {
		return nil
	}
	return &driver.DeadlockError{Key: e.key, Held: driver.Claim{Key: e.key, Mode: e.phase.Mode}, Wanted: c}
}

// held returns the error that says who is in the way.
func (e *entry) held(now time.Time) *driver.HeldError {
	last, room := phasefair.InTheWay(e.phase.Mode, e.holders, func(h *holder) time.Duration { return h.expires.Sub(now) })
	held := &driver.HeldError{Key: e.key, Holder: last.owner, Trace: last.trace, HeldFor: now.Sub(last.since), RetryAfter: room}
	if last.wanted != nil {
		held.HeldFor = 0 // only its engine knows since when the present holder has had it (A12)
	}
	return held
}
