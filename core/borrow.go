package core

import (
	"context"
	"errors"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/carried"
	"github.com/keyturn/keyturn/core/internal/circuit"
	"github.com/keyturn/keyturn/core/internal/handoff"
)

// suspect is a carried lease that may have some of the wanted claims, and the grant that it
// would be.
type suspect struct {
	said  *carried.Lease
	grant handoff.Grant
}

func suspects(top *chain, wanted []Claim) []suspect {
	var hashes []string // of wanted's keys; made late, because most contexts carry nothing
	var all []suspect
	for n := top; n != nil; n = n.next {
		if n.carried != nil && hashes == nil {
			for _, c := range wanted {
				hashes = append(hashes, carried.HashKey(c.Key))
			}
		}
		for i := range n.carried {
			f := &n.carried[i]
			// The store compares all of it. Without the reserved hand-offs, a token could be
			// that of the next grant.
			g := handoff.Grant{
				Grant: driver.Grant{Owner: f.Owner, Token: f.Token, HandedOn: f.HandedOn, TTL: f.TTL, Borrowed: true},
			}
			for j, c := range wanted {
				if held, ok := f.ClaimOn(c, hashes[j]); ok {
					g.Claims = append(g.Claims, held)
				}
			}
			if len(g.Claims) > 0 {
				all = append(all, suspect{f, g})
			}
		}
	}
	return all
}

// borrow takes what it can of the cover's rest from leases that ctx carries. It returns the
// context that has them.
func (e *Engine) borrow(ctx, parent context.Context, cov *cover, s *settings) (context.Context, error) {
	lenders := suspects(cov.top, cov.rest)
	if len(lenders) == 0 {
		return parent, nil
	}
	lenders, err := e.verify(ctx, lenders)
	if err != nil {
		return parent, err
	}
	borrowed := make([]*Lease, len(lenders)) // by lender; nil: it has nothing of use
	rest := cov.rest
	cov.rest = nil
	for _, c := range rest {
		i, held := findLender(lenders, c)
		if i < 0 {
			cov.rest = append(cov.rest, c)
			continue
		}
		if l := borrowed[i]; l == nil && !s.once && covers(held.Mode, c) {
			if borrowed[i], err = e.newLease(parent, &lenders[i].grant, time.Time{}, s, lenders[i].said); err != nil {
				return parent, err
			}
			cov.owned = append(cov.owned, borrowed[i])
			parent = borrowed[i].ctx
		}
		if cov.take(c, held, borrowed[i], borrowedDepth, s); cov.refused != nil {
			return parent, e.showError(cov.refused)
		}
	}
	return parent, nil
}

// borrowedDepth is the depth of a borrowed lease: 1 for the holder, however deeply it is nested
// there, and 1 for us.
const borrowedDepth = 2

// verify returns the suspects that the store knows.
func (e *Engine) verify(ctx context.Context, all []suspect) (known []suspect, err error) {
	grants := make([]driver.Grant, len(all))
	for i := range all {
		if err := e.backend().circuit.Refuses(all[i].grant.Claims); err != nil {
			return nil, err
		}
		grants[i] = all[i].grant.Grant
	}
	bounded, cancel := context.WithTimeout(ctx, circuit.ProbeTime)
	defer cancel()
	sent := time.Now()
	errs := e.backend().watchdog.Renew(bounded, grants...)
	for i, s := range all {
		switch err := errs[i]; {
		case err == nil:
			s.grant.Since = sent
			known = append(known, s)
		case errors.Is(err, ErrLeaseLost): // the lease is forged, or over
		case errors.Is(err, ErrInvalidOption), errors.Is(err, ErrInvalidClaim), errors.Is(err, errors.ErrUnsupported):
			// The store has no such leases: it is forged, or another store's. This is no outage, in which work may
			// run unlocked ([WithRunUnlocked]).
		case errors.Is(err, ErrUnavailable), errors.Is(err, ErrClosed):
			return nil, unlessHurried(ctx, sent, err)
		default:
			return nil, unlessHurried(ctx, sent, &UnavailableError{Op: "verify", Err: err})
		}
	}
	return known, nil
}

// findLender returns the first suspect that covers c or, without one, the first that has c's
// key.
func findLender(all []suspect, c Claim) (at int, held Claim) {
	at = -1
	for i, s := range all {
		for _, claim := range s.grant.Claims {
			if claim.Key == c.Key && (at < 0 || covers(claim.Mode, c)) {
				at, held = i, claim
			}
			if at == i && covers(held.Mode, c) {
				return at, held
			}
		}
	}
	return at, held
}

// releaseBorrowed stops the renewal of leases that were borrowed for an acquisition that failed. The
// loss of one of them may be why it failed.
func (e *Engine) releaseBorrowed(ctx context.Context, cov *cover, err error) error {
	for _, l := range cov.owned {
		if lost := l.Release(ctx); errors.Is(lost, ErrLeaseLost) {
			err = lost
		}
	}
	return err
}
