package proof

import (
	"fmt"
	"slices"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// The steps of owners that were granted something, whether or not they still have it.

// with returns the grant with a flaw.
func with(g driver.Grant, flaw Flaw) driver.Grant {
	switch flaw {
	case WrongToken:
		g.Token++
	case NoToken:
		g.Token = 0
	case WrongMode:
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
	for i := range max(s.Count, 1) {
		a := r.choose(s.Who+i, r.granted)
		if a == nil || slices.Contains(who, a) || s.Op == Expire && !r.heard(a.claims, false) {
			break
		}
		g := a.said.grant
		g.TTL = s.TTL
		switch {
		case s.Op == Expire:
			g.TTL = short
		case i == 0 && s.Op == Part:
			g.Claims = g.Claims[:1]
		}
		if i == 0 {
			g = with(g, s.Flaw)
		}
		who, grants = append(who, a), append(grants, g)
	}
	if len(grants) == 0 {
		return taken{}, false
	}
	t := r.took(who[0], fmt.Sprintf("and %d others %#v", len(who)-1, s))
	for _, err := range who[0].store.Renew(r.ctx, slices.Clone(grants)) {
		t.answers = append(t.answers, ended(err))
	}
	r.do(func(m *Model) {
		for i, g := range grants {
			flaw := Sound
			if i == 0 {
				flaw = s.Flaw
			}
			m.Renew(g.Owner, g.Claims, flaw, g.TTL)
		}
	})
	if s.Op == Expire {
		r.lapse()
	}
	return t, true
}

// lapse lets leases end that were renewed for a moment only. Their answers stay.
func (r *run) lapse() {
	answers := r.models[0].answers
	r.pass(short + 5*time.Millisecond)
	for _, m := range r.models {
		m.answers = answers
	}
}

func (r *run) release(s Step) (taken, bool) {
	a := r.choose(s.Who, r.granted)
	if a == nil {
		return taken{}, false
	}
	said := ended(a.store.Release(r.ctx, with(a.said.grant, s.Flaw)))
	r.do(func(m *Model) { m.Release(a.owner, a.claims, s.Flaw) })
	return r.took(a, fmt.Sprintf("%#v", s), said), true
}

func (r *run) complete(s Step) (taken, bool) {
	a := r.choose(s.Who, func(a *acquisition) bool { return r.granted(a) && a.once })
	if a == nil || !r.heard(a.claims, true) {
		return taken{}, false
	}
	if s.Flaw == WrongMode {
		s.Flaw = Sound // an execution has only one claim
	}
	retention, size := s.TTL, len(r.asked)
	// Waiters for the record may need a while to see it.
	brief := s.Count > 1 && r.each(func(m *Model) bool { return len(m.at(a.claims[0].Key).queue) == 0 })
	if brief {
		retention = short
	}
	rec := driver.Record{Result: make([]byte, size)}
	said := ended(a.store.Complete(r.ctx, with(a.said.grant, s.Flaw), rec, retention))
	r.do(func(m *Model) { m.Complete(a.owner, a.claims[0], s.Flaw, size, retention) })
	if brief {
		r.lapse()
	}
	return r.took(a, fmt.Sprintf("%#v", s), said), true
}
