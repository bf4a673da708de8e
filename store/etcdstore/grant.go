package etcdstore

import (
	"context"
	"slices"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/phasefair"
	"github.com/keyturn/keyturn/internal/waitloop"
)

// decide grants the claims, or says how they are held.
func (a *acquisition) decide(ctx context.Context) (ans answer, err error) {
	if len(a.req.Claims) > keysPerTxn {
		return a.decideInParts(ctx)
	}
	begin := byHeart
	if a.at != "" {
		begin = look
	}
	err = a.s.transact(ctx, driver.Keys(a.req.Claims), begin, func(t *tx) (err error) {
		a.confirm(t)
		ans, err = a.decideOn(t)
		return err
	})
	return ans, err
}

// decideOn decides about all claims of the request.
func (a *acquisition) decideOn(t *tx) (answer, error) {
	if rec := t.locks[0].record; a.once && rec != nil {
		a.leaveQueues(t, -1)
		return answer{record: &rec.Record}, nil
	}
	reach, err := a.reach(t, a.req.Claims)
	if err != nil {
		return answer{}, err
	}
	if reach < len(a.req.Claims) {
		return a.stop(t, a.req.Claims, reach)
	}
	if l := t.locks[0]; t.crowded && len(t.locks) == 1 && l.members.Find(a.req.Owner) == nil {
		// Readers and permit holders that come all the time would always be quicker. The
		// process that decides next finds this request in the queue, and lets it in.
		return answer{crowded: true}, a.join(t, l, a.req.Claims[0])
	}
	g, err := a.complete(t)
	return answer{grant: g}, err
}

// reach says how far the request gets with claims, whose locks are those of t.
func (a *acquisition) reach(t *tx, claims []driver.Claim) (int, error) {
	reach, err := phasefair.Reach(a.req.Owner, claims, func(i int) phasefair.Lock[*member] { return t.locks[i].place() })
	if err != nil {
		return 0, verdict{err}
	}
	return reach, nil
}

// stop waits for the claim number reach, or gives up.
func (a *acquisition) stop(t *tx, claims []driver.Claim, reach int) (answer, error) {
	if !t.fresh {
		return answer{}, errLook
	}
	l := t.locks[reach]
	// Three signs of life in the time of the shortest lease.
	within := min(a.req.TTL, a.s.cfg.waiterLease) / 3
	ahead := l.members.Ahead(a.req.Owner)
	state := &waitloop.State{Held: l.held(ahead), At: time.Now(), Within: within, Changes: [2]time.Duration{-1, -1}}
	ans := answer{held: state, at: l.key}
	if !a.req.Wait || ahead == 0 { // those in front have told already
		ans.wants = l.want()
	}
	if !a.req.Wait {
		a.leaveQueues(t, -1)
		a.dropParts(t, 0)
		return ans, nil
	}
	a.leaveQueues(t, reach)
	for i := range reach {
		if _, err := a.take(t, t.locks[i], claims[i]); err != nil {
			return answer{}, err
		}
	}
	a.dropParts(t, reach)
	if l.members.Find(a.req.Owner) != nil {
		return ans, nil
	}
	return ans, a.join(t, l, claims[reach])
}

// join takes a place in a queue. Others that decide meanwhile are not in its way.
func (a *acquisition) join(t *tx, l *lock, c driver.Claim) error {
	lease, err := a.waiting(t.ctx)
	if err != nil {
		return err
	}
	m := a.newMember(c)
	t.attach(m, lease, len(a.req.Claims))
	l.members = append(l.members, m)
	l.members.Sort()
	return nil
}

func (a *acquisition) newMember(c driver.Claim) *member {
	m := &member{owner: a.req.Owner, memberValue: memberValue{
		Mode: c.Mode, Permits: c.Permits, TTL: int64(a.req.TTL / time.Second), Reserved: a.req.HandOffs,
		Partial: len(a.req.Claims) > 1, Once: a.once,
		Since: time.Now().UnixMicro(), Rule: []byte(a.req.Rule), Trace: []byte(a.req.Trace),
	}}
	if a.req.Linger && !a.once && a.s.inbox.ready() {
		m.Inbox = a.s.inbox.id
	}
	return m
}

// leaveQueues takes the request out of all queues except that of lock number except.
func (a *acquisition) leaveQueues(t *tx, except int) {
	for i, l := range t.locks {
		if m := l.members.Find(a.req.Owner); m != nil && m.waits() && i != except {
			l.remove(m)
		}
	}
}

// dropParts ends what a waiting set holds of the locks from number from on. A lease that was
// granted as a whole stays.
func (a *acquisition) dropParts(t *tx, from int) {
	for _, l := range t.locks[from:] {
		if m := l.members.Holding(a.req.Owner, 0); m != nil && m.Partial {
			l.remove(m)
		}
	}
}

// take makes the request hold a claim: for another term if it holds it already.
func (a *acquisition) take(t *tx, l *lock, c driver.Claim) (*member, error) {
	lease, err := a.holding(t.ctx)
	if err != nil {
		return nil, err
	}
	m := l.members.Holding(a.req.Owner, 0)
	if m == nil {
		m = a.newMember(c)
		l.setPhase(l.phase().Entered(c.Mode))
		l.members = append(l.members, m)
		t.enter(l, m)
		m.Others = len(l.members.Waiters()) > 0
		l.members.Sort()
	}
	if m.lease != lease.id {
		t.attach(m, lease, len(a.req.Claims))
	}
	if ttl := int64(a.req.TTL / time.Second); m.TTL != ttl {
		m.TTL, m.changed = ttl, true
	}
	return m, nil
}

// complete takes all claims under one token: the request's own if it was granted before,
// otherwise a new one.
func (a *acquisition) complete(t *tx) (driver.Grant, error) {
	a.leaveQueues(t, -1)
	if len(a.req.Claims) == 1 {
		l := t.locks[0]
		if m := l.members.Holding(a.req.Owner, 0); m != nil && t.fresh && a.waitedFor(m) {
			return a.single(m, a.wait, len(l.members.Waiters()) > 0), nil
		}
		m, err := a.take(t, l, a.req.Claims[0])
		if err != nil {
			return driver.Grant{}, err
		}
		return a.single(m, a.hold, len(l.members.Waiters()) > 0), nil
	}
	token, whole := a.whole(t.locks)
	contended := false
	var highest uint64
	for i, l := range t.locks {
		if _, err := a.take(t, l, a.req.Claims[i]); err != nil {
			return driver.Grant{}, err
		}
		highest = max(highest, l.Last)
		contended = contended || len(l.members.Waiters()) > 0
	}
	if !whole {
		token, _ = driver.NextTokens(highest, time.Now(), 0)
		for _, l := range t.locks {
			a.seal(l, token)
		}
	}
	return a.grant(token, 0, a.hold, contended), nil
}

// seal makes a claim a part of a whole set.
func (a *acquisition) seal(l *lock, token uint64) {
	m := l.members.Holding(a.req.Owner, 0)
	m.Token, m.Reserved, m.Partial, m.Since, l.Last = token, 0, false, time.Now().UnixMicro(), token
	m.changed, l.decided = true, true
	l.members.Sort()
}

// whole returns the token of the set, if it was granted before.
func (a *acquisition) whole(locks []*lock) (token uint64, ok bool) {
	for i, l := range locks {
		m := l.members.Holding(a.req.Owner, 0)
		if m == nil || m.Partial || i > 0 && m.Token != token {
			return 0, false
		}
		token = m.Token
	}
	return token, true
}

// grant is what the caller gets for a lease of etcd. The grant counts from the moment before etcd was
// last asked to keep that lease.
func (a *acquisition) grant(token, reserved uint64, l *lease, contended bool) driver.Grant {
	g := driver.Grant{
		Owner: a.req.Owner, Claims: a.req.Claims, TTL: a.req.TTL, Token: token, HandOffs: reserved, Since: l.since, Contended: contended,
	}
	if g.Term = min(l.ttl, a.req.TTL); l.ttl >= a.req.TTL && time.Since(l.since) < brief {
		g.Term = 0 // all of it is left
	}
	return g
}

// single is the grant of a single claim.
func (a *acquisition) single(m *member, l *lease, contended bool) driver.Grant {
	g := a.grant(m.Token, m.Reserved, l, contended)
	g.Lingers = m.lingers() && a.s.inbox.ready()
	return g
}

// brief is the age of a lease that counts as new.
const brief = 100 * time.Millisecond

// inParts calls do for the claims of a set, as many at a time as one transaction takes.
func inParts(claims []driver.Claim, do func([]driver.Claim) error) error {
	for part := range slices.Chunk(claims, keysPerTxn) {
		if err := do(part); err != nil {
			return err
		}
	}
	return nil
}
