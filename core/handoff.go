package core

import (
	"context"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/handoff"
	"github.com/keyturn/keyturn/core/internal/watchdog"
)

// heritable says whether the grant of a request may be handed on, and to whom: from one
// plain exclusive lease on a key to the next. It is no longer if another process may work
// under it, or if it is not what it was when it was granted; also not while an extension
// may be on its way to the store ([watchdog.Rest]).
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

// giveBackGrant is for a grant that came to no lease: the next in line may have it,
// or else the store.
func (e *Engine) giveBackGrant(ctx context.Context, g handoff.Grant, rule string) {
	if e.lines.HandOn(g) == handoff.HandOn {
		return
	}
	e.undo(ctx, g, rule)
	e.lines.Ended(g)
}
