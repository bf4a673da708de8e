package model

import (
	"fmt"
	"slices"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// The steps of owners that were granted something, whether or not they still have it.

// with returns the grant with a flaw.
func with(g driver.Grant, flaw flaw) driver.Grant {
	switch flaw {
	case wrongToken:
		g.Token++
	case noToken:
		g.Token = 0
	case wrongMode:
		g.Claims = slices.Clone(g.Claims)
		c := &g.Claims[0]
		c.Mode, c.Permits = (c.Mode+1)%driver.ModePermit, 0
	}
	return g
}

// renew renews several grants at once. The first may have a wrong token, or only a part of its
// claims.
func (r *run) renew(s Step) (taken, bool) {
	var who []*acquisition
	var grants []driver.Grant
	for i := range max(s.count, 1) {
		a := r.choose(s.who+i, r.granted)
		if a == nil || slices.Contains(who, a) || s.op == opExpire && !r.heard(a.claims, false) {
			break
		}
		g := a.said.grant
		g.TTL = s.ttl
		switch {
		case s.op == opExpire:
			g.TTL = r.short()
		case i == 0 && s.op == opPart:
			g.Claims = g.Claims[:1]
		}
		if i == 0 {
			g = with(g, s.flaw)
		}
		who, grants = append(who, a), append(grants, g)
		a.ttl = g.TTL
	}
	if len(grants) == 0 {
		return taken{}, false
	}
	t := r.took(who[0], fmt.Sprintf("and %d others %#v", len(who)-1, s))
	for _, err := range who[0].store.Renew(r.ctx, slices.Clone(grants)) {
		t.answers = append(t.answers, ended(err))
	}
	r.do(func(m *backend) {
		for i, g := range grants {
			flaw := sound
			if i == 0 {
				flaw = s.flaw
			}
			m.Renew(g.Owner, g.Claims, flaw, g.TTL)
		}
	})
	if s.op == opExpire {
		r.lapse()
	}
	return t, true
}

// share downgrades what was exclusive.
func (r *run) share(s Step) (taken, bool) {
	a := r.choose(s.who, r.granted)
	if a == nil || a.once {
		return taken{}, false
	}
	g := a.said.grant
	g.TTL, g.Claims = s.ttl, slices.Clone(a.claims)
	for i, c := range g.Claims {
		if c.Mode == driver.ModeExclusive {
			g.Claims[i].Mode = driver.ModeShared
		}
	}
	g = with(g, s.flaw)
	said := ended(a.store.Downgrade(r.ctx, g))
	r.do(func(m *backend) { m.Downgrade(a.owner, g.Claims, s.flaw, g.TTL) })
	if said.kind == fine {
		a.claims, a.ttl = g.Claims, s.ttl
		a.said.grant.Claims = g.Claims
	}
	return r.took(a, fmt.Sprintf("downgrades to %v%s", g.Claims, s.flaw), said), true
}

// lapse lets leases end that were renewed for a moment only. Their answers stay.
func (r *run) lapse() {
	answers := r.models[0].answers
	r.pass(r.short() + 5*time.Millisecond)
	for _, m := range r.models {
		m.answers = answers
	}
}

// borrow renews from another process than the owner's: with the TTL that the owner asked for
// last, with a shorter one, or with a longer one.
func (r *run) borrow(s Step) (taken, bool) {
	a := r.choose(s.who, r.granted)
	if a == nil {
		return taken{}, false
	}
	g := with(a.said.grant, s.flaw)
	g.Borrowed, g.Since, g.Term = true, time.Time{}, 0
	g.TTL = [...]time.Duration{a.ttl, r.TTLs.Nearest(a.ttl / 2), a.ttl + max(r.TTLs.Step, time.Millisecond)}[(s.count-1)%3]
	store := r.Stores[(slices.Index(r.Stores, a.store)+1)%len(r.Stores)]
	said := ended(store.Renew(r.ctx, []driver.Grant{g})[0])
	r.do(func(m *backend) { m.Borrow(g.Owner, g.Claims, s.flaw, g.TTL) })
	return r.took(a, fmt.Sprintf("is borrowed%s for %v", s.flaw, g.TTL), said), true
}

// repeatsAfter is after how long a store may have sent a release, or a forced one, again, because there
// was no answer. It then can't tell a lease that was lost before from one that its first attempt has
// ended. It may say that it was released ([driver.RepeatedRelease]), or that the outcome is unknown.
const repeatsAfter = 40 * time.Millisecond

func (r *run) mayRepeat(asked time.Time) bool { return !r.Exact && time.Since(asked) >= repeatsAfter }

func (r *run) release(s Step) (taken, bool) {
	a := r.choose(s.who, r.granted)
	if a == nil {
		return taken{}, false
	}
	asked := time.Now()
	said := ended(a.store.Release(r.ctx, with(a.said.grant, s.flaw)))
	said.repeated = r.mayRepeat(asked)
	r.do(func(m *backend) { m.Release(a.owner, a.claims, s.flaw) })
	return r.took(a, fmt.Sprintf("%#v", s), said), true
}

func (r *run) complete(s Step) (taken, bool) {
	a := r.choose(s.who, func(a *acquisition) bool { return r.granted(a) && a.once })
	if a == nil || !r.heard(a.claims, true) {
		return taken{}, false
	}
	if s.flaw == wrongMode {
		s.flaw = sound // an execution has only one claim
	}
	retention, size := s.ttl, len(r.asked)
	// Waiters for the record may need a while to see it.
	brief := s.count > 1 && r.each(func(m *backend) bool { return len(m.at(a.claims[0].Key).queue) == 0 })
	if brief {
		retention = short
	}
	if a.record == nil { // an owner repeats the record as it was
		a.record = &record{size: size, notKept: s.notKept}
		if s.notKept {
			a.record.size = 0
		}
	}
	rec := driver.Record{Result: make([]byte, a.record.size), ResultNotKept: a.record.notKept}
	said := ended(a.store.Complete(r.ctx, with(a.said.grant, s.flaw), rec, retention))
	r.do(func(m *backend) { m.Complete(a.owner, a.claims[0], s.flaw, *a.record, retention) })
	if brief {
		r.lapse()
	}
	return r.took(a, fmt.Sprintf("%#v", s), said), true
}
