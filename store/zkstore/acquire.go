package zkstore

import (
	"context"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/casstore"
	"github.com/keyturn/keyturn/internal/keystate"
	"github.com/keyturn/keyturn/internal/waitloop"
)

// Acquire implements [driver.Store]. A claim on a key that the owner holds in another mode gets
// a [*driver.DeadlockError].
func (s *Store) Acquire(ctx context.Context, req driver.Request) (driver.Grant, error) {
	ans, err := s.acquire(ctx, req, false)
	return ans.Grant, err
}

// acquisition is one call of Acquire or Begin.
type acquisition struct {
	casstore.Acquisition
	s      *Store
	id     string // of the owner, in the names of nodes
	began  time.Time
	asked  bool
	waited bool // it has had a place in the queue
}

func (s *Store) acquire(ctx context.Context, req driver.Request, once bool) (casstore.Answer, error) {
	if err := s.check(req.Owner, req.Claims, req.TTL); err != nil {
		return casstore.Answer{}, err
	}
	if err := s.calls.Enter(); err != nil {
		return casstore.Answer{}, err
	}
	defer s.calls.Leave()
	a := &acquisition{s: s, id: nodeID(req.Owner), began: time.Now()}
	a.Store, a.Question = &s.ops, a.ask
	a.Request = keystate.Request{Request: req, Once: once}
	if req.Linger && !once {
		a.Inbox = s.inbox.address()
	}
	a.Linger = a.Inbox != ""
	if req.Wait {
		a.Wake = waitloop.NewBell()
		s.places.join(a.Wake)
		defer s.places.leave(a.Wake)
	}
	return a.Run(ctx)
}

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
		var seen *view // by a request that waits; nil: it has just joined the queue
		_, err := a.s.transact(ctx, aim, func(t *tx) (err error) {
			ans, seen, err = a.decide(t)
			return err
		})
		if err != nil || ans.Held == nil || !a.Wait {
			return ans, err
		}
		if a.waited = true; seen == nil {
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
func (a *acquisition) decide(t *tx) (casstore.Answer, *view, error) {
	ans, err := t.Acquire(&a.Request)
	switch {
	case err != nil:
		return casstore.Answer{}, nil, err
	case ans.Record != nil:
		return casstore.Answer{Record: &ans.Record.Record}, nil, nil
	case ans.Held == nil:
		return casstore.Answer{Grant: a.granted(ans, t.sent)}, nil, nil
	}
	held := casstore.Answer{Held: a.state(t, ans)}
	if ans.Member == nil || nodeOf(ans.Member) == nil {
		return held, nil, nil
	}
	seen := new(view)
	t.after = func() { *seen = viewOf(t.locks[ans.At], ans.Member) }
	return held, seen, nil
}

func (a *acquisition) granted(ans keystate.Answer, since time.Time) driver.Grant {
	return driver.Grant{
		Owner: a.Owner, Claims: a.Claims, TTL: a.TTL, Token: ans.Token, HandOffs: ans.Reserved, Since: since, Contended: ans.Contended,
		Lingers: a.isTold(ans.Member),
	}
}

// isTold reports whether the engine is told if somebody wants the lease.
func (a *acquisition) isTold(m *keystate.Member) bool {
	return len(a.Claims) == 1 && m.Lingers() && m.Inbox == a.s.inbox.address()
}

// state says when to ask again even if no message comes.
func (a *acquisition) state(t *tx, ans keystate.Answer) *waitloop.State {
	// Renewals tell nobody, and one may have brought the end of the lease nearer.
	state := &waitloop.State{Held: *ans.Held, At: time.Now(), Within: a.s.cfg.session / 3, Changes: [2]time.Duration{-1, -1}}
	if len(a.Claims) > 1 {
		state.Within = max(min(state.Within, a.TTL/3), time.Millisecond) // it keeps what the set holds already
	}
	if len(t.Keys[ans.At].Holders()) > 0 {
		state.Changes[0] = state.Held.RetryAfter
		if ans.Held.Ahead > 0 {
			// The first in line is to notice the end of a lease. If it is dead, others have to.
			state.Changes[0] += a.firstTerm()
		}
	}
	return state
}

// firstTerm is how long a lease lasts that is given to a waiter, until the waiter has noticed.
func (a *acquisition) firstTerm() time.Duration { return min(a.TTL, a.s.cfg.claimTime()) }

// taken returns the lease that another process's decision has given to this waiter, with a short first
// term, if the wait was short. Two reads at the same time are enough to see it, and the engine renews it
// soon. The lease counts from the beginning of the request, which is before the grant in any case.
// After a longer wait too little of the term would be left, so the waiter asks, which renews it.
func (a *acquisition) taken(ctx context.Context) (g driver.Grant, ok bool) {
	if !a.waited || len(a.Claims) != 1 || time.Since(a.began) > a.firstTerm()/2 {
		return g, false
	}
	p, err := a.s.link.get(ctx, a.s.patience(a.Wait))
	if err != nil {
		return g, false
	}
	c := a.Claims[0]
	path := a.s.lockPath(c.Key)
	var n *node
	var names []string
	err = together(2, func(i int) (err error) {
		if i == 0 {
			n, err = holder(p, path, holderNode+a.id)
			return err
		}
		names, _, err = p.Children(path)
		return err
	})
	if err != nil || n.data.Mode != c.Mode || n.data.Released || n.data.Token == 0 || n.data.Term < toMicros(a.firstTerm()) {
		return g, false
	}
	g = a.granted(keystate.Answer{
		Token: n.data.Token, Reserved: n.data.Reserved, Contended: len(parseChildren(names).waiters) > 0, Member: n.member(new(keystate.Member), moment{}),
	}, a.began)
	g.Term = a.firstTerm()
	return g, true
}
