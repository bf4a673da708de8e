package zkstore

import (
	"context"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/casstore"
	"github.com/keyturn/keyturn/internal/keystate"
	"github.com/keyturn/keyturn/internal/waitloop"
)

// acquisition is one call of Acquire or Begin.
type acquisition struct {
	casstore.Acquisition
	s     *Store
	began time.Time
	asked bool
	own   string // the path of the place in the queue that it watches; "": it has not had one
}

func (s *Store) acquire(ctx context.Context, r keystate.Request) (casstore.Answer, error) {
	a := &acquisition{s: s, began: time.Now()}
	// Renewals tell nobody, and one may have brought the end of the lease nearer: so requests ask often.
	a.Acquisition = casstore.Acquisition{Store: &s.ops, Request: r, Within: s.cfg.session / 3, Notice: s.firstTerm(r.TTL), Question: a.ask}
	s.inbox.Serve(&s.ops, &a.Request)
	if r.Wait {
		a.Wake = waitloop.NewBell()
		defer s.watchers.leave(a.Wake)
	}
	ans, err := a.Run(ctx)
	if err == nil {
		s.sweepOnce(r.Claims[0].Key)
	}
	return ans, err
}

// firstTerm is how long a lease lasts that is given to a waiter, until the waiter has noticed.
func (s *Store) firstTerm(ttl time.Duration) time.Duration { return min(ttl, s.cfg.claimTime()) }

// ask asks once. A request that waits asks again after it has joined the queue: what it read before
// may have changed by then, without anybody who knew of it. And it asks again if something has
// changed before the server had been asked to tell of changes.
func (a *acquisition) ask(ctx context.Context) (casstore.Answer, error) {
	aim := casstore.Aim{Keys: driver.Keys(a.Claims), Owner: a.Owner, Records: a.Once, Looks: !a.Wait, Waits: a.Wait}
	if !a.asked && isPlain(a.Claims) {
		a.asked = true
		g, ok, unknown := a.short(ctx)
		if ok {
			return casstore.Answer{Grant: g}, nil
		}
		aim.Unsure = unknown
	}
	if g, ok := a.taken(ctx); ok {
		return casstore.Answer{Grant: g}, nil
	}
	for r := (retries{}); ; {
		var ans casstore.Answer
		var seen *view // by a request that waits; nil: it has just joined the queue, or got the lock
		_, err := a.s.transact(ctx, aim, func(t *tx) (err error) {
			ans, seen, err = a.decide(t)
			return err
		})
		if err != nil || ans.Held == nil || !a.Wait {
			return ans, err
		}
		if seen == nil {
			continue
		}
		if err = a.watch(ctx, seen); err == nil {
			return ans, nil
		}
		if !r.again(ctx, err) {
			return casstore.Answer{}, err
		}
	}
}

// decide grants the claims, or says how they are held.
func (a *acquisition) decide(t *tx) (ans casstore.Answer, seen *view, err error) {
	got, err := t.Acquire(&a.Request)
	if err != nil {
		return ans, nil, err
	}
	if got.Held != nil && a.Wait && got.Member.Waits && nodeOf(got.Member) != nil {
		seen = new(view)
		t.after = func() { *seen = viewOf(t.locks[got.At], got.Member) }
	}
	return a.Answer(got, t.sent), seen, nil
}

// taken returns the lease that another process's decision has given to this waiter, with a short first term. Two
// reads at the same time are enough to see it, and the engine renews it soon. The lease counts from the beginning of
// the request, which is before the grant in any case. After a longer wait too little of the term would be left, so it
// is renewed. Neither reads the other holders, of whom there are many if readers have waited. A place that is still
// watched has not gone, so its waiter has nothing yet.
func (a *acquisition) taken(ctx context.Context) (g driver.Grant, ok bool) {
	if a.own == "" || len(a.Claims) != 1 {
		return g, false
	}
	if waits, _ := a.s.watchers.isSet(a.own); waits {
		return g, false
	}
	p, err := a.s.link.get(ctx, a.s.patience(a.Wait))
	if err != nil {
		return g, false
	}
	c, term := a.Claims[0], a.s.firstTerm(a.TTL)
	n, all, err := place(p, a.s.lockPath(c.Key), nodeID(a.Owner))
	if err != nil || n.data.Mode != c.Mode || n.data.Released || n.data.Token == 0 || n.data.Term < toMicros(term) {
		return g, false
	}
	g = a.Grant(keystate.Answer{
		Token: n.data.Token, Reserved: n.data.Reserved, Contended: len(all.waiters) > 0, Member: n.member(new(keystate.Member), moment{}),
	}, a.began)
	if time.Since(a.began) <= term/2 {
		g.Term = term
		return g, true
	}
	g.Since = time.Now()
	return g, a.s.Renew(ctx, []driver.Grant{g})[0] == nil
}

// place reads the lease of an owner, and the names of all who hold the lock or wait for it.
func place(p *peer, path, id string) (n *node, all children, err error) {
	err = casstore.Parallel(2, func(i int) (err error) {
		if i == 0 {
			n, err = holder(p, path, holderNode+id)
			return err
		}
		names, _, err := p.Children(path)
		all = parseChildren(names)
		return err
	})
	return n, all, err
}
