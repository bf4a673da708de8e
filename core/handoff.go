package core

import (
	"context"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/handoff"
	"github.com/keyturn/keyturn/core/internal/watchdog"
)

// heritable says whether the grant of a request may be handed on, and to whom: from one
// plain exclusive lease on a key to the next.
func (s *settings) heritable(claims []Claim) bool {
	return !s.once && len(claims) == 1 && claims[0].Mode == driver.ModeExclusive
}

// handOn gives g, which its holder is done with, to the first in line, and reports
// whether it could. If the store's last word about g is too old it is asked first: by
// a renewal, since an heir has use for one.
func (e *Engine) handOn(in *within, g handoff.Grant) bool {
	if decision := e.lines.HandOn(g); decision != handoff.Confirm {
		return decision == handoff.HandOn
	}
	ctx, cancel := context.WithTimeout(in.context(), handoff.MaxTime) // then it is over, and the release takes its turn
	defer cancel()
	sent := time.Now()
	err := watchdog.ErrNoAnswer
	if errs := e.store.Renew(ctx, []driver.Grant{g.Grant}); len(errs) == 1 {
		err = errs[0]
	}
	e.circuit.Learn(g.Claims, err)
	e.storeCalled("renew", sent, err)
	if err != nil {
		return false // if it is lost, the release says so
	}
	g.Since, g.Term, g.Heard = sent, 0, time.Now()
	return e.lines.HandOn(g) == handoff.HandOn
}

// heritage is the grant as the next holder may have it, of a lease that leaves this rest.
// There is none of a lease that another process may work under, or that is not what it
// was when it was granted; also not while an extension may be on its way to the store.
func (l *Lease) heritage(rest watchdog.Rest) (g handoff.Grant, ok bool) {
	g = l.grant
	if !rest.Unchanged || !g.Heritable {
		return handoff.Grant{}, false
	}
	g.Since, g.Heard = rest.Since, rest.Heard
	if g.Term = 0; rest.Term < g.TTL {
		g.Term = rest.Term // not renewed yet
	}
	return g, true
}

// giveBackGrant is for a grant that came to no lease: the next in line may have it,
// or else the store.
func (e *Engine) giveBackGrant(ctx context.Context, g handoff.Grant, rule string) {
	if e.lines.HandOn(g) == handoff.HandOn {
		return
	}
	e.undo(ctx, g, rule)
	e.lines.Ended(g)
}
