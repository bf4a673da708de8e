package sqlstore

import (
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/phasefair"
)

// micros is a time by the database's clock, or a duration, in microseconds.
type micros = int64

func toMicros(d time.Duration) micros   { return int64((d + time.Microsecond - 1) / time.Microsecond) }
func fromMicros(m micros) time.Duration { return time.Duration(m) * time.Microsecond }

// The flags of a member.
const (
	partial  = 1 << iota // a part of a set that waits for the rest
	released             // by its owner; it stays for a while (R6)
	once                 // a waiter that also takes a record
	lingerer             // a waiter whose lease may linger
)

// member is an owner that holds a key or waits for it.
type member struct {
	owner   string
	waits   bool
	mode    driver.Mode
	permits int
	nr      uint64 // order of arrival
	inbox   string // where messages reach the process of a waiter, or of a lease that lingers; "": nowhere

	token    uint64
	reserved uint64 // the tokens after it that are its own; of a waiter, as many as it wants
	until    micros
	since    micros
	ttl      micros
	flags    int
	rule     string
	trace    string
}

// Standing implements [phasefair.Member].
func (m *member) Standing() phasefair.Standing {
	return phasefair.Standing{Owner: m.owner, Waits: m.waits, Mode: m.mode, Permits: m.permits, Token: m.token, Arrived: m.nr}
}

func (m *member) is(flag int) bool { return m.flags&flag != 0 }

// lingers reports whether the engine of a holder may keep the lease after its release. The engine is
// told when somebody else wants the key.
func (m *member) lingers() bool { return !m.waits && m.inbox != "" }

// lock is a key, with everybody who holds it or waits for it. Its rows are locked, so nobody else
// changes them.
type lock struct {
	phasefair.Lock[*member]
	key         string
	last        uint64 // the greatest token given or reserved
	arrived     uint64
	recordUntil micros

	exists bool // it has a row
	stored stored
}

// stored is what the database has of a lock.
type stored struct {
	row     lockRow
	members map[string]member // in the table of members
}

// lockRow is a lock's own row. An exclusive holder stands in it, so that one statement can take
// and release a key that nobody waits for. Otherwise holder.until is the earliest end of a
// holder's lease, which tells those who look that there may be room.
type lockRow struct {
	last             uint64
	mode             driver.Mode
	through, arrived uint64
	members          int
	recordUntil      micros
	holder           member
}

// row is the lock's own row as it should be.
func (l *lock) row() lockRow {
	r := lockRow{last: l.last, mode: l.Phase.Mode, through: l.Phase.Through, arrived: l.arrived, recordUntil: l.recordUntil, members: len(l.Members)}
	if h := l.single(); h != nil {
		r.holder = *h
		r.holder.mode, r.holder.permits, r.holder.nr, r.holder.waits = 0, 0, 0, false
		r.members--
		return r
	}
	for _, h := range l.Holders() {
		if r.holder.until == 0 || h.until < r.holder.until {
			r.holder.until = h.until
		}
	}
	return r
}

// single is the exclusive holder, or nil.
func (l *lock) single() *member {
	if l.Phase.Mode != driver.ModeExclusive {
		return nil
	}
	for _, m := range l.Members {
		if !m.waits {
			return m
		}
	}
	return nil
}

// step lets those in whose turn it is.
func (t *tx) step(l *lock) {
	for {
		step := l.Step(phasefair.MostPerStep)
		l.Phase = step.Phase
		for _, m := range step.Granted {
			t.woken = append(t.woken, *m)
			t.enter(l, m, min(m.ttl, toMicros(t.s.cfg.claimTime())))
		}
		if !step.More {
			return
		}
	}
}

// enter makes m a holder for a while, under a token of its own.
func (t *tx) enter(l *lock, m *member, term micros) {
	m.waits, m.since, m.until = false, t.now, t.now+term
	m.token, m.reserved = driver.NextTokens(l.last, t.clock(), m.reserved)
	l.last = m.token + m.reserved
	m.nr = 0
	if !m.is(lingerer) {
		m.inbox = ""
	}
	m.flags &^= once | lingerer
	l.Sort()
}

// extend gives m another term, which its owner asked for.
func (t *tx) extend(m *member, ttl time.Duration) {
	m.ttl = toMicros(ttl)
	m.until = t.now + m.ttl
}

// held is the error that says who is in the way of a request that is behind ahead others.
func (t *tx) held(l *lock, ahead int) *driver.HeldError {
	e := &driver.HeldError{Key: l.key, Ahead: ahead}
	holders := l.Holders()
	if len(holders) == 0 {
		return e
	}
	last, room := phasefair.InTheWay(l.Phase.Mode, holders, func(h *member) time.Duration { return fromMicros(h.until - t.now) })
	e.Holder, e.Trace, e.RetryAfter = last.owner, last.trace, room
	if !last.lingers() {
		e.HeldFor = fromMicros(t.now - last.since)
	}
	return e
}
