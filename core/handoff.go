package core

import (
	"context"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/handoff"
)

// heritable reports whether the grant of a request may be handed on: from one plain exclusive
// lease on a key to the next. Later it may not any more, if another process may work under the
// lease, or if the lease was changed since its grant, or while an extension may be on its way
// to the store ([watchdog.Rest]).
func (s *settings) heritable(claims []Claim) bool {
	return !s.once && !s.fresh && s.minHold == 0 && len(claims) == 1 && claims[0].Mode == driver.ModeExclusive
}

// handOn gives g, which its holder no longer needs, to the first in line, and reports whether
// it could. If the store's last answer about g is too old, the store is asked first: by a
// renewal, which the next holder can use.
func (e *Engine) handOn(bound *releaseBound, g handoff.Grant) bool {
	if decision := e.lines.HandOn(g); decision != handoff.Confirm {
		return decision == handoff.HandOn
	}
	ctx, cancel := context.WithTimeout(bound.context(), handoff.MaxTime) // after that the streak is over, and the release still has time
	defer cancel()
	sent := time.Now()
	if err := e.backend().watchdog.Renew(ctx, g.Grant)[0]; err != nil {
		return false // if the lease is lost, the release reports it
	}
	g.Since, g.Term, g.Heard = sent, 0, time.Now()
	return e.lines.HandOn(g) == handoff.HandOn
}

// giveBackGrant gives back a grant that did not become a lease: to the next in line, otherwise
// to the store.
func (e *Engine) giveBackGrant(ctx context.Context, g handoff.Grant, rule string) {
	if e.lines.HandOn(g) == handoff.HandOn {
		return
	}
	e.debts.owe(ctx, g, rule, true)
	e.lines.Ended(g)
}
