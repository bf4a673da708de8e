package zkstore

import (
	"cmp"
	"slices"
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

// lock is a key, with everybody who holds it or waits for it.
type lock struct {
	key, path string
	exists    bool
	version   int32
	last      uint64 // the greatest token given or reserved
	phase     phasefair.Phase
	members   []*member // holders in order of their tokens, then waiters in order of arrival
	nodes     children
	record    *storedRecord // in force; nil also if nobody asked for it

	was     lockData
	removed []*member // that have a node
	altered bool      // who holds it, or the record, changes with this transaction
}

// find returns owner's membership, or nil.
func (l *lock) find(id string) *member {
	for _, m := range l.members {
		if m.id == id {
			return m
		}
	}
	return nil
}

// holding returns owner's lease, or nil. Token 0 stands for an owner that was not told its token.
func (l *lock) holding(id string, token uint64) *member {
	m := l.find(id)
	if m == nil || m.waits || token != 0 && token != m.Token {
		return nil
	}
	return m
}

// holders are the leases in force, in order of their tokens.
func (l *lock) holders() []*member { return l.those(func(m *member) bool { return !m.waits }) }

// waiters are the requests in the queue, in order of arrival.
func (l *lock) waiters() []*member { return l.those(func(m *member) bool { return m.waits }) }

func (l *lock) those(are func(*member) bool) []*member {
	var all []*member
	for _, m := range l.members {
		if are(m) {
			all = append(all, m)
		}
	}
	return all
}

// sort puts the members in order.
func (l *lock) sort() {
	slices.SortStableFunc(l.members, func(a, b *member) int {
		return cmp.Or(cmp.Compare(a.nr, b.nr), cmp.Compare(a.Token, b.Token), cmp.Compare(a.id, b.id))
	})
}

func (l *lock) remove(m *member) {
	l.members = slices.DeleteFunc(l.members, func(o *member) bool { return o == m })
	if m.node != "" {
		l.removed = append(l.removed, m)
	}
	if !m.waits {
		l.altered = true
	}
}

// data is what the node of the lock should hold.
func (l *lock) data() lockData {
	return lockData{Last: l.last, Mode: l.phase.Mode, Through: l.phase.Through}
}

// writes reports whether the node of a lock that exists has to be written.
func (l *lock) writes() bool { return l.altered || l.data() != l.was }

// read is the lock as package phasefair decides about it. Those whose time is over were left out
// when it was loaded.
func (l *lock) read() (p phasefair.Lock, waiters []*member) {
	p.Phase = l.phase
	for _, m := range l.members {
		if !m.waits {
			p.Holders = append(p.Holders, phasefair.Holder{Owner: m.id})
			continue
		}
		waiters = append(waiters, m)
		claim := driver.Claim{Key: l.key, Mode: m.mode, Permits: m.permits}
		p.Waiters = append(p.Waiters, phasefair.Queued{Waiter: phasefair.Waiter{Claim: claim, Arrived: m.nr}, Owner: m.id})
	}
	return p, waiters
}

// place is the lock for a question to package phasefair that needs no waiters back.
func (l *lock) place() phasefair.Lock {
	p, _ := l.read()
	return p
}

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
	l.sort()
}

// extend gives m another term, which its owner asked for.
func (t *tx) extend(m *member, ttl time.Duration) {
	m.TTL = toMicros(ttl)
	m.Term, m.ends, m.changed = m.TTL, t.now.now+m.TTL, true
}

// held is the error that says who is in the way of a request that is behind ahead others.
func (t *tx) held(l *lock, ahead int) *driver.HeldError {
	e := &driver.HeldError{Key: l.key, Ahead: ahead}
	holders := l.holders()
	if len(holders) == 0 {
		return e
	}
	last, first := holders[0], holders[0]
	for _, h := range holders {
		if h.ends > last.ends {
			last = h
		}
		if h.ends < first.ends {
			first = h
		}
	}
	free := last.ends
	if l.phase.Mode == driver.ModePermit {
		free = first.ends // a place is free as soon as one holder has gone
	}
	e.Holder, e.Trace = last.Owner, last.Trace
	e.HeldFor, e.RetryAfter = fromMicros(max(0, t.now.now-last.since)), fromMicros(max(0, free-t.now.now))
	return e
}
