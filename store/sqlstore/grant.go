package sqlstore

import (
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/phasefair"
	"github.com/keyturn/keyturn/internal/waitloop"
)

// decide grants the claims, or says how they are held.
func (a *acquisition) decide(t *tx) (answer, error) {
	if a.once {
		rec, err := t.record(t.locks[0])
		if err != nil {
			return answer{}, err
		}
		if rec != nil {
			a.leaveQueues(t, -1)
			return answer{record: rec}, nil
		}
	}
	reach, err := phasefair.Reach(a.req.Owner, a.req.Claims, func(i int) phasefair.Lock[*member] { return t.locks[i].Lock })
	if err != nil {
		return answer{}, verdict{err}
	}
	if reach == len(a.req.Claims) {
		return answer{grant: a.complete(t)}, nil
	}
	l := t.locks[reach]
	t.want(l)
	ahead := l.Ahead(a.req.Owner)
	state := &waitloop.State{Held: *t.held(l, ahead), At: time.Now(), Within: a.within(), Changes: [2]time.Duration{-1, -1}}
	if ahead == 0 {
		state.Changes[0] = state.Held.RetryAfter
	}
	if a.req.Wait {
		a.wait(t, reach)
	} else {
		a.leaveQueues(t, -1)
		a.dropParts(t, 0)
	}
	return answer{held: state}, nil
}

// within is how long the request may sleep without asking. The poll keeps its place in the queue
// alive, but not what a set holds already.
func (a *acquisition) within() time.Duration {
	if len(a.req.Claims) > 1 {
		return max(a.req.TTL/3, time.Millisecond)
	}
	return 10 * a.s.cfg.waiterLease
}

// wait takes the claims up to reach and waits for the next.
func (a *acquisition) wait(t *tx, reach int) {
	a.leaveQueues(t, reach)
	for i := range reach {
		a.take(t, i)
	}
	a.dropParts(t, reach)
	l, c := t.locks[reach], a.req.Claims[reach]
	until := t.now + toMicros(a.s.cfg.waiterLease)
	if m := l.Find(a.req.Owner); m != nil {
		m.until = until
		return
	}
	l.arrived++
	m := a.newMember(c)
	m.waits, m.nr, m.until, m.since, m.inbox = true, l.arrived, until, t.now, a.s.inbox()
	m.reserved = a.req.HandOffs
	if a.once {
		m.flags |= once
	}
	if a.mayLinger() {
		m.flags |= lingerer
	}
	l.Members = append(l.Members, m)
	l.Sort()
}

func (a *acquisition) newMember(c driver.Claim) *member {
	m := &member{owner: a.req.Owner, mode: c.Mode, permits: c.Permits, ttl: toMicros(a.req.TTL), rule: a.req.Rule, trace: a.req.Trace}
	if len(a.req.Claims) > 1 {
		m.flags |= partial
	}
	return m
}

// leaveQueues takes the request out of all queues except that of its claim number but.
func (a *acquisition) leaveQueues(t *tx, but int) {
	for i, l := range t.locks {
		if m := l.Find(a.req.Owner); m != nil && m.waits && i != but {
			l.Remove(m)
		}
	}
}

// dropParts ends what a waiting set holds of its claims from number from on. A lease that was
// granted as a whole stays.
func (a *acquisition) dropParts(t *tx, from int) {
	for _, l := range t.locks[from:] {
		if m := l.Holding(a.req.Owner, 0); m != nil && m.is(partial) {
			l.Remove(m)
		}
	}
}

// take makes the request hold its claim number i: for another term if it holds it already.
func (a *acquisition) take(t *tx, i int) *member {
	l, c := t.locks[i], a.req.Claims[i]
	m := l.Holding(a.req.Owner, 0)
	if m == nil {
		m = a.newMember(c)
		m.reserved = a.req.HandOffs
		if a.mayLinger() {
			m.inbox = a.s.inbox()
		}
		l.Phase = l.Phase.Entered(c.Mode)
		l.Members = append(l.Members, m)
		t.enter(l, m, m.ttl)
	}
	t.extend(m, a.req.TTL)
	return m
}

// complete takes all claims under one token: the request's own if it was granted before,
// otherwise a new one.
func (a *acquisition) complete(t *tx) driver.Grant {
	a.leaveQueues(t, -1)
	token, whole := a.whole(t)
	lingers := false
	var reserved uint64
	var highest uint64
	for i, l := range t.locks {
		reserved = a.take(t, i).reserved
		highest = max(highest, l.last)
	}
	if len(a.req.Claims) == 1 {
		m := t.locks[0].Holding(a.req.Owner, 0)
		token, lingers = m.token, m.lingers()
	} else if !whole {
		token, _ = driver.NextTokens(highest, t.clock(), 0)
		for _, l := range t.locks {
			m := l.Holding(a.req.Owner, 0)
			m.token, m.since, l.last = token, t.now, token
			m.flags &^= partial
			l.Sort()
		}
	}
	contended := false
	for _, l := range t.locks {
		contended = contended || len(l.Waiters()) > 0
	}
	return driver.Grant{
		Owner: a.req.Owner, Claims: a.req.Claims, TTL: a.req.TTL, Token: token, HandOffs: reserved, Since: t.sent, Contended: contended, Lingers: lingers,
	}
}

// whole returns the token of the set, if it was granted before.
func (a *acquisition) whole(t *tx) (token uint64, ok bool) {
	for i, l := range t.locks {
		m := l.Holding(a.req.Owner, 0)
		if m == nil || m.is(partial) || i > 0 && m.token != token {
			return 0, false
		}
		token = m.token
	}
	return token, true
}
