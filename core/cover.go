package core

import (
	"context"

	"github.com/keyturn/keyturn/core/driver"
)

// cover says which of the requested claims a context already holds.
type cover struct {
	wanted  []Claim
	top     *chain
	rest    []Claim  // claims that it does not hold, in key order
	claims  []Claim  // claims that it holds
	holders []*Lease // for each of claims, the lease that holds it
	owned   []*Lease // leases obtained for this acquisition so far
	depth   int      // the depth of a lease that is nested in them
	unwatch func()   // ends the watch over owned; nil: there is none
	refused error    // set if the caller would wait for itself
}

// covers reports whether a lease with mode m includes what c asks for. A permit includes a
// permit, whatever the numbers of permits are.
func covers(m driver.Mode, c Claim) bool { return m == driver.ModeExclusive || m == c.Mode }

// left reports whether anything is left to acquire.
func (cov *cover) left() bool { return cov == nil || len(cov.rest) > 0 }

// covered looks up what ctx holds by leases of this engine. It returns nil if ctx has no lease,
// neither its own nor a carried one.
func (e *Engine) covered(ctx context.Context, claims []Claim, s *settings) *cover {
	top := chainOf(ctx)
	if top == nil {
		return nil
	}
	cov := &cover{wanted: claims, top: top}
	for _, c := range claims {
		if held, holder, depth := e.heldIn(top, c); holder != nil {
			cov.take(c, held, holder, depth+1, s)
		} else {
			cov.rest = append(cov.rest, c)
		}
	}
	return cov
}

// take notes that holder already holds c's key, with the claim held.
func (cov *cover) take(c, held Claim, holder *Lease, depth int, s *settings) {
	if s.once || !covers(held.Mode, c) {
		cov.refused = &driver.DeadlockError{Key: c.Key, Held: held, Wanted: c, Once: s.once}
		return
	}
	cov.claims = append(cov.claims, c)
	cov.holders = append(cov.holders, holder)
	cov.depth = max(cov.depth, depth)
}

// heldIn returns the innermost lease of this engine in the chain that is in force and covers c
// or, without one, has c's key. It ignores leases of other engines, and leases that have ended.
func (e *Engine) heldIn(top *chain, c Claim) (held Claim, holder *Lease, depth int) {
	for n := top; n != nil; n = n.next {
		if n.lease == nil || n.lease.engine != e {
			continue
		}
		for _, p := range n.lease.parts() {
			claim, has := p.claimOn(c.Key)
			if !has || n.lease.Err() != nil || holder != nil && !covers(claim.Mode, c) {
				continue
			}
			if held, holder, depth = claim, p, int(n.lease.depth); covers(held.Mode, c) {
				return held, holder, depth
			}
		}
	}
	return held, holder, depth
}
