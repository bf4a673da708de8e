package model

import (
	"slices"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// kind is the kind of an answer.
type kind string

const (
	waits    kind = "waits"
	granted  kind = "granted"
	refused  kind = "refused"  // a *driver.HeldError
	recorded kind = "recorded" // a record instead of the lease
	deadlock kind = "deadlock" // a *driver.DeadlockError
	fine     kind = "fine"     // nil
	lost     kind = "lost"     // a *driver.LeaseLostError
	failed   kind = "failed"   // the kind of an answer that no model gives
)

// expected is the answer that a store should give.
type expected struct {
	kind  kind
	key   string // refused, deadlock: the key; any one of several
	order int    // granted: its place among all grants
	// reasons are the possible reasons of a loss: that of a forced release, or "" for any other.
	// Empty: unknown.
	reasons []string
	found   string // what was there: a record, a version, those whose leases were taken
}

// Do returns the possible results of an operation. Usually that is one model. There are more if
// several sets go on at the same moment and their order matters. m does not change.
func (m *backend) Do(op func(*backend)) []*backend {
	n := m.clone()
	n.answers = nil
	op(n)
	return distinct(n.settle())
}

// settle lets the sets go on that were admitted, in every possible order.
func (m *backend) settle() []*backend {
	var all []*backend
	for owner, r := range m.requests {
		if r.ready {
			n := m.clone()
			n.proceed(owner)
			all = append(all, n.settle()...)
		}
	}
	if all == nil {
		return []*backend{m}
	}
	return distinct(all)
}

// forget drops the order of the grants so far, once their tokens have been found to be in that
// order. Models that differ in nothing else are then one.
func (m *backend) forget() {
	m.grants = 0
	for _, r := range m.requests {
		r.answer.order = 0
	}
}

func distinct(all []*backend) []*backend {
	if len(all) == 1 {
		return all
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(m *backend) bool {
		s := m.String()
		defer func() { seen[s] = true }()
		return seen[s]
	})
}

// Ask is an Acquire by an owner that has asked for nothing before. With once it is a Begin.
func (m *backend) Ask(owner string, claims []driver.Claim, ttl time.Duration, wait, once bool) {
	r := &request{claims: claims, ttl: ttl, once: once}
	m.requests[owner] = r
	if once && m.recorded(claims[0].Key) {
		r.answer = m.recordOf(claims[0].Key) // L1
		return
	}
	var full []string
	for _, c := range claims {
		if !wait && !m.at(c.Key).admits(c) {
			r.answer.kind, r.answer.key = refused, r.answer.key+" "+c.Key
			full = append(full, c.Key)
		}
	}
	for _, key := range full {
		if len(full) == 1 {
			m.tell(key, mustBe)
		} else {
			m.tell(key, mayBe) // the request is refused because of one of them
		}
	}
	if r.answer.kind != refused { // A5, S1: nothing else happens
		m.proceed(owner)
	}
}

// proceed takes claims in order, up to the first that has to be waited for (S1).
func (m *backend) proceed(owner string) {
	r := m.requests[owner]
	r.ready = false
	for r.at = 0; r.at < len(r.claims); r.at++ {
		c := r.claims[r.at]
		k := m.at(c.Key)
		switch {
		case k.lease(owner) != nil:
		case k.admits(c):
			m.enter(owner, c)
		default:
			r.answer = expected{kind: waits, key: c.Key}
			if len(k.queue) == 0 {
				m.tell(c.Key, mustBe)
			} else {
				m.tell(c.Key, mayBe) // the first in the queue has told, or the grant was contended
			}
			k.queue = append(k.queue, ticket{owner, c})
			return
		}
	}
	m.grant(owner, r)
}

// grant gives all claims one token (S2) and a full TTL.
func (m *backend) grant(owner string, r *request) {
	m.grants++
	for _, c := range r.claims {
		k := m.at(c.Key)
		*k.lease(owner) = lease{owner: owner, ends: m.now + r.ttl, ttl: r.ttl, lingers: r.lingers()}
		if len(k.queue) > 0 {
			m.tell(c.Key, mayBe)
		}
	}
	r.answer = expected{kind: granted, order: m.grants}
}

// whole reports whether owner was granted something and still has all of it.
func (m *backend) whole(owner string) bool {
	r := m.requests[owner]
	return r != nil && r.answer.kind == granted && !slices.ContainsFunc(r.claims, func(c driver.Claim) bool {
		return m.at(c.Key).lease(owner) == nil
	})
}

// Again is a request by an owner that already holds what it asks for: it gets the same token
// and a full TTL (A4).
func (m *backend) Again(owner string, claims []driver.Claim, ttl time.Duration) {
	r := m.requests[owner]
	for i, c := range claims {
		if have := r.claims[i].Mode; c.Mode != have {
			m.say(expected{kind: deadlock, key: c.Key})
			return
		}
	}
	m.say(r.answer)
	for _, c := range claims {
		l := m.at(c.Key).lease(owner)
		l.ends, l.ttl = m.now+ttl, ttl
	}
}

// GiveUp ends a wait (A7, A8). Nothing is left behind (S1). The owner may not know yet which
// claim it waits for by now.
func (m *backend) GiveUp(owner string) {
	r := m.requests[owner]
	r.answer = expected{kind: refused}
	for _, c := range r.claims[:r.at+1] {
		r.answer.key += " " + c.Key
	}
	k := m.at(r.claims[r.at].Key)
	k.queue = slices.DeleteFunc(k.queue, func(t ticket) bool { return t.owner == owner })
	for _, c := range r.claims[:r.at+1] {
		m.leave(owner, c.Key)
	}
}
