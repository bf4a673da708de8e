package zkstore

import (
	"context"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// taken returns the lease that another process's decision has given to this waiter, with a short first
// term, if the wait was short. Two reads at the same time are enough to see it, and the engine renews it
// soon. The lease counts from the beginning of the request, which is before the grant in any case.
// After a longer wait too little of the term would be left, so the waiter asks, which renews it.
func (a *acquisition) taken(ctx context.Context) (g driver.Grant, ok bool) {
	if !a.waited || len(a.req.Claims) != 1 || time.Since(a.began) > a.firstTerm()/2 {
		return g, false
	}
	p, err := a.s.link.get(ctx, a.patience())
	if err != nil {
		return g, false
	}
	c := a.req.Claims[0]
	path := a.s.lockPath(c.Key)
	var m *member
	var names []string
	err = together(2, func(i int) (err error) {
		if i == 0 {
			m, err = holder(p, path, holderNode+a.id)
			return err
		}
		names, _, err = p.Children(path)
		return err
	})
	if err != nil || m.mode != c.Mode || m.Released || m.Token == 0 || m.Term < toMicros(a.firstTerm()) {
		return g, false
	}
	return driver.Grant{
		Owner: a.req.Owner, Claims: a.req.Claims, TTL: a.req.TTL, Token: m.Token, HandOffs: m.Reserved,
		Since: a.began, Term: a.firstTerm(), Contended: len(parseChildren(names).waiters) > 0,
		Lingers: a.isTold(m),
	}, true
}

// firstTerm is how long a lease lasts that is given to a waiter, until the waiter has noticed.
func (a *acquisition) firstTerm() time.Duration { return min(a.req.TTL, a.s.cfg.claimTime()) }
