package core

import (
	"context"
	"errors"
	"strings"
	"time"
)

// claimOn is how the lease is said to have c's key. Of permits it does not matter
// how many there are: one is held.
func (f foreign) claimOn(c Claim, hash string) (Claim, bool) {
	for at := 0; at < len(f.claims); at += claimChars {
		if f.claims[at+1:at+claimChars] != hash {
			continue
		}
		switch mode := Mode(strings.IndexByte(modeLetters, f.claims[at])); {
		case mode != ModePermit:
			return Claim{Key: c.Key, Mode: mode}, true
		case c.Mode == ModePermit:
			return c, true
		default:
			return Permit(c.Key, 1), true
		}
	}
	return Claim{}, false
}

// suspects are the carried leases that are said to have something of what is
// wanted, as grants for the store to verify.
func suspects(top *chain, wanted []Claim) []Grant {
	var hashes []string
	var grants []Grant
	for n := top; n != nil; n = n.next {
		for _, f := range n.carried {
			g := Grant{Owner: f.owner, Token: f.token, TTL: f.ttl}
			for i, c := range wanted {
				if hashes == nil {
					hashes = make([]string, len(wanted))
				}
				if hashes[i] == "" {
					hashes[i] = hashKey(c.Key)
				}
				if held, ok := f.claimOn(c, hashes[i]); ok {
					g.Claims = append(g.Claims, held)
				}
			}
			if len(g.Claims) > 0 {
				grants = append(grants, g)
			}
		}
	}
	return grants
}

// borrow takes what it can of the cover's rest from leases that ctx carries, and
// returns the context that has them.
func (e *Engine) borrow(ctx, parent context.Context, cov *cover, s settings) (context.Context, error) {
	grants := suspects(cov.top, cov.rest)
	if len(grants) == 0 {
		return parent, nil
	}
	grants, err := e.believed(ctx, grants)
	if err != nil {
		return parent, err
	}
	borrowed := make([]*Lease, len(grants)) // by grant, those that are of use
	rest := cov.rest
	cov.rest = nil
	for _, c := range rest {
		i, held := findGrant(grants, c)
		if i < 0 {
			cov.rest = append(cov.rest, c)
			continue
		}
		if l := borrowed[i]; l == nil && !s.once && held.Mode.covers(c) {
			if borrowed[i], err = e.lease(parent, grants[i], s, true); err != nil {
				return parent, err
			}
			cov.owned = append(cov.owned, borrowed[i])
			parent = borrowed[i].ctx
		}
		if cov.take(c, held, borrowed[i], borrowedDepth, s); cov.refused != nil {
			return parent, cov.refused
		}
	}
	return parent, nil
}

// borrowedDepth is 1 for the holder, however often it holds the key, and 1 for us.
const borrowedDepth = 2

// believed are the grants that the store knows.
func (e *Engine) believed(ctx context.Context, grants []Grant) ([]Grant, error) {
	if err := e.circuit.refuses(); err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	sent := time.Now()
	errs := e.store.Renew(bounded, grants)
	e.storeCalled("renew", sent, errors.Join(errs...))
	var known []Grant
	for i, g := range grants {
		err := errNoAnswer
		if i < len(errs) {
			err = errs[i]
		}
		e.circuit.overheard(err)
		switch {
		case err == nil:
			g.Since = sent
			known = append(known, g)
		case errors.Is(err, ErrLeaseLost): // forged, or over
		case errors.Is(err, ErrUnavailable), errors.Is(err, ErrClosed):
			return nil, unlessHurried(ctx, sent, err)
		default:
			return nil, unlessHurried(ctx, sent, &UnavailableError{Op: "verify", Err: err})
		}
	}
	return known, nil
}

// findGrant returns the first grant that has c's key, rather one that covers c.
func findGrant(grants []Grant, c Claim) (at int, held Claim) {
	at = -1
	for i, g := range grants {
		for _, claim := range g.Claims {
			if claim.Key == c.Key && (at < 0 || claim.Mode.covers(c)) {
				at, held = i, claim
			}
			if at == i && held.Mode.covers(c) {
				return at, held
			}
		}
	}
	return at, held
}
