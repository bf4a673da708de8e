package zkstore

import (
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/phasefair"
	"github.com/keyturn/keyturn/internal/waitloop"
)

// decide grants the claims, or says how they are held.
func (a *acquisition) decide(t *tx) (answer, error) {
	if rec := t.locks[0].record; rec != nil {
		if m := t.locks[0].Find(a.id); m != nil {
			t.locks[0].remove(m) // perhaps it was its turn before the record was seen
		}
		kept := rec.Record
		return answer{record: &kept}, nil
	}
	reach, err := phasefair.Reach(a.id, a.req.Claims, func(i int) phasefair.Lock[*member] { return t.locks[i].Lock })
	if err != nil {
		return answer{}, verdict{err}
	}
	if reach == len(a.req.Claims) {
		return answer{grant: a.complete(t)}, nil
	}
	l := t.locks[reach]
	ahead := l.Ahead(a.id)
	ans := answer{held: a.state(t, l, ahead)}
	if !a.req.Wait || ahead == 0 { // those in front have told already
		ans.wants = l.want()
	}
	if a.req.Wait {
		a.wait(t, reach)
		ans.view = new(view)
		t.after = func() { *ans.view = viewOf(l, a.id) }
	} else {
		a.leaveQueues(t, -1)
		a.dropParts(t, 0)
	}
	return ans, nil
}

// state says when to ask again even if no message comes.
func (a *acquisition) state(t *tx, l *lock, ahead int) *waitloop.State {
	// Renewals tell nobody, and one may have brought the end of the lease nearer.
	state := &waitloop.State{Held: *t.held(l, ahead), At: time.Now(), Within: a.s.cfg.session / 3, Changes: [2]time.Duration{-1, -1}}
	if len(a.req.Claims) > 1 {
		state.Within = max(min(state.Within, a.req.TTL/3), time.Millisecond) // it keeps what the set holds already
	}
	if len(l.Holders()) > 0 {
		state.Changes[0] = state.Held.RetryAfter
		if ahead > 0 {
			// The first in line is to notice the end of a lease. If it is dead, others have to.
			state.Changes[0] += a.firstTerm()
		}
	}
	return state
}

// wait takes the claims up to reach and waits for the next.
func (a *acquisition) wait(t *tx, reach int) {
	a.leaveQueues(t, reach)
	for i := range reach {
		a.take(t, i)
	}
	a.dropParts(t, reach)
	l, c := t.locks[reach], a.req.Claims[reach]
	if l.Find(a.id) != nil {
		return
	}
	// The server gives it its number, so it takes part in decisions from the next one on.
	a.joined = true
	m := a.newMember(c)
	m.Mode, m.Permits = m.mode, m.permits
	t.extra = append(t.extra, &zk.CreateRequest{
		Path: l.path + "/" + waiterName(a.id, c, a.once), Data: encode(m.memberData), Acl: a.s.cfg.acl, Flags: zk.FlagEphemeralSequential,
	})
}

func (a *acquisition) newMember(c driver.Claim) *member {
	m := &member{id: a.id, mode: c.Mode, permits: c.Permits, memberData: memberData{
		Owner: a.req.Owner, Reserved: a.req.HandOffs, TTL: toMicros(a.req.TTL), Partial: len(a.req.Claims) > 1, Rule: a.req.Rule, Trace: a.req.Trace,
	}}
	if a.req.Linger && !a.once {
		m.Inbox = a.s.inbox.address()
	}
	return m
}

// isTold reports whether the engine is told if somebody wants the lease.
func (a *acquisition) isTold(m *member) bool { return m.lingers() && m.Inbox == a.s.inbox.address() }

// leaveQueues takes the request out of all queues except that of its claim number but.
func (a *acquisition) leaveQueues(t *tx, but int) {
	for i, l := range t.locks {
		if m := l.Find(a.id); m != nil && m.waits && i != but {
			l.remove(m)
		}
	}
}

// dropParts ends what a waiting set holds of its claims from number from on. A lease that was
// granted as a whole stays.
func (a *acquisition) dropParts(t *tx, from int) {
	for _, l := range t.locks[from:] {
		if m := l.Holding(a.id, 0); m != nil && m.Partial {
			l.remove(m)
		}
	}
}

// take makes the request hold its claim number i: for another term if it holds it already.
func (a *acquisition) take(t *tx, i int) *member {
	l, c := t.locks[i], a.req.Claims[i]
	m := l.Holding(a.id, 0)
	if m == nil {
		m = a.newMember(c)
		l.Phase = l.Phase.Entered(c.Mode)
		l.Members = append(l.Members, m)
		t.enter(l, m, m.TTL)
	}
	t.extend(m, a.req.TTL)
	return m
}

// complete takes all claims under one token: the request's own if it was granted before,
// otherwise a new one.
func (a *acquisition) complete(t *tx) driver.Grant {
	a.leaveQueues(t, -1)
	token, whole := a.whole(t)
	var reserved, highest uint64
	contended := false
	for i, l := range t.locks {
		reserved = a.take(t, i).Reserved
		highest = max(highest, l.last)
		contended = contended || len(l.Waiters()) > 0
	}
	lingers := false
	switch {
	case len(a.req.Claims) == 1:
		m := t.locks[0].Holding(a.id, 0)
		token, lingers = m.Token, a.isTold(m)
	case !whole:
		token, _ = driver.NextTokens(highest, t.clock(), 0)
		for _, l := range t.locks {
			m := l.Holding(a.id, 0)
			m.Token, m.since, l.last, l.altered = token, t.now.now, token, true
			m.Partial, m.anew = false, true
			l.Sort()
		}
	}
	return driver.Grant{
		Owner: a.req.Owner, Claims: a.req.Claims, TTL: a.req.TTL, Token: token, HandOffs: reserved, Since: t.sent, Contended: contended, Lingers: lingers,
	}
}

// whole returns the token of the set, if it was granted before.
func (a *acquisition) whole(t *tx) (token uint64, ok bool) {
	for i, l := range t.locks {
		m := l.Holding(a.id, 0)
		if m == nil || m.Partial || i > 0 && m.Token != token {
			return 0, false
		}
		token = m.Token
	}
	return token, true
}
