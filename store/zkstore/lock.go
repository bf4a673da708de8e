package zkstore

import (
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/phasefair"
)

// member is an owner that holds a key or waits for it.
type member struct {
	id      string // of the owner, in the names of nodes
	node    string // its name; "": it has none yet
	waits   bool
	mode    driver.Mode
	permits int
	nr      uint64 // of a waiter: order of arrival
	once    bool   // a waiter that also takes a record

	// Of a waiter, this is known only if it was asked for.
	memberData
	ends    micros // of a holder
	since   micros // it was granted, or began to wait
	stat    *zk.Stat
	changed bool // the node has to be written
	anew    bool // the node has to be made anew, so that it counts as granted now
}

// Standing implements [phasefair.Member].
func (m *member) Standing() phasefair.Standing {
	return phasefair.Standing{Owner: m.id, Waits: m.waits, Mode: m.mode, Permits: m.permits, Token: m.Token, Arrived: m.nr}
}

// lock is a key, with everybody who holds it or waits for it.
type lock struct {
	phasefair.Lock[*member]
	key, path string
	exists    bool
	version   int32
	last      uint64 // the greatest token given or reserved
	nodes     children
	record    *storedRecord // in force; nil also if nobody asked for it

	was     lockData
	removed []*member // that have a node
	altered bool      // who holds it, or the record, changes with this transaction
}

func (l *lock) remove(m *member) {
	l.Remove(m)
	if m.node != "" {
		l.removed = append(l.removed, m)
	}
	if !m.waits {
		l.altered = true
	}
}

// data is what the node of the lock should hold.
func (l *lock) data() lockData {
	return lockData{Last: l.last, Mode: l.Phase.Mode, Through: l.Phase.Through}
}

// writes reports whether the node of a lock that exists has to be written.
func (l *lock) writes() bool { return l.altered || l.data() != l.was }

// enter makes m a holder for a while, under a token of its own.
func (t *tx) enter(l *lock, m *member, term micros) {
	if m.waits {
		l.removed = append(l.removed, &member{id: m.id, node: m.node, waits: true})
	}
	m.waits, m.once, m.node, m.nr, m.stat = false, false, "", 0, nil
	m.since, m.Term, m.ends = t.now.now, term, t.now.now+term
	m.Token, m.Reserved = driver.NextTokens(l.last, t.clock(), m.Reserved)
	l.last = m.Token + m.Reserved
	l.altered = true
	l.Sort()
}

// extend gives m another term, which its owner asked for.
func (t *tx) extend(m *member, ttl time.Duration) {
	m.TTL = toMicros(ttl)
	m.Term, m.ends, m.changed = m.TTL, t.now.now+m.TTL, true
}

// held is the error that says who is in the way of a request that is behind ahead others.
func (t *tx) held(l *lock, ahead int) *driver.HeldError {
	e := &driver.HeldError{Key: l.key, Ahead: ahead}
	holders := l.Holders()
	if len(holders) == 0 {
		return e
	}
	last, room := phasefair.InTheWay(l.Phase.Mode, holders, func(h *member) time.Duration { return fromMicros(h.ends - t.now.now) })
	e.Holder, e.Trace = last.Owner, last.Trace
	e.RetryAfter = room
	if !last.lingers() { // otherwise only its engine knows since when its present user has had it
		e.HeldFor = fromMicros(max(0, t.now.now-last.since))
	}
	return e
}
