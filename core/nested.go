package core

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/handoff"
)

// nest is the state of a lease that has no grant of its own but depends on other leases. The
// store and the watchdog do not know it.
type nest struct {
	of    *Lease   // the lease whose token, owner and deadline it shows; one of on
	on    []*Lease // leases with grants of their own; all of them have to be in force
	owned []*Lease // those of on that were obtained for it, and are released with it
	ended atomic.Pointer[error]
}

// base returns the lease whose grant l uses.
func (l *Lease) base() *Lease {
	if l.nest != nil {
		return l.nest.of
	}
	return l
}

// err implements Lease.Err.
func (n *nest) err() error {
	if ended := n.ended.Load(); ended != nil {
		return *ended
	}
	if lost := n.loss(); lost != nil {
		return n.noteEnd(lost)
	}
	return nil
}

// loss returns how the first of the leases that it depends on ended; nil: all are in force.
func (n *nest) loss() error {
	for _, p := range n.on {
		switch err := p.Err(); {
		case err == nil:
		case errors.Is(err, ErrLeaseLost):
			return err
		default: // its holder released it while work went on under it
			return p.lossError(driver.LossOuter)
		}
	}
	return nil
}

// noteEnd notes how it ended, unless that was noted before, and returns the note.
func (n *nest) noteEnd(err error) error {
	n.ended.CompareAndSwap(nil, &err)
	return *n.ended.Load()
}

// leave implements Lease.Release.
func (l *Lease) leave(ctx context.Context) error {
	err := l.nest.loss()
	if err == nil {
		err = ErrReleased
	}
	err = l.nest.noteEnd(err)
	l.finished.signal()
	for _, p := range l.nest.on {
		p.finished.unfollow(l)
	}
	l.cancel(err)
	if errors.Is(err, ErrReleased) {
		err = nil
	}
	for _, p := range slices.Backward(l.nest.owned) {
		if own := p.Release(ctx); err == nil {
			err = own
		}
	}
	if errors.Is(err, ErrLeaseLost) {
		l.nest.ended.Store(&err) // the release may have revealed a loss
	}
	return err
}

// cover says which of the requested claims a context already holds.
type cover struct {
	wanted  []Claim
	top     *chain
	rest    []Claim  // claims that it does not hold, in key order
	claims  []Claim  // claims that it holds
	by      []*Lease // for each of claims, the lease that holds it
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
		if held, by, depth := e.heldIn(top, c); by != nil {
			cov.take(c, held, by, depth+1, s)
		} else {
			cov.rest = append(cov.rest, c)
		}
	}
	return cov
}

// take notes that the lease by already holds c's key, with the claim held.
func (cov *cover) take(c, held Claim, by *Lease, depth int, s *settings) {
	if s.once || !covers(held.Mode, c) {
		cov.refused = &driver.DeadlockError{Key: c.Key, Held: held, Wanted: c, Once: s.once}
		return
	}
	cov.claims = append(cov.claims, c)
	cov.by = append(cov.by, by)
	cov.depth = max(cov.depth, depth)
}

// nested makes a lease of what ctx holds. rest is the lease on what ctx did not hold; nil if it
// held everything.
func (e *Engine) nested(ctx context.Context, cov *cover, rest *Lease, s *settings) *Lease {
	n := &nest{owned: cov.owned}
	l := &Lease{engine: e, terms: s.terms(), granted: time.Now(), nest: n, depth: int32(cov.depth)}
	if rest != nil {
		n.of, n.on, n.owned, l.depth = rest, []*Lease{rest}, append(n.owned, rest), rest.depth
	} else {
		n.of = cov.by[0]
	}
	l.grant = handoff.Grant{
		Grant: driver.Grant{Owner: n.of.Owner(), Token: n.of.grant.Token, Claims: cov.rest},
		Hands: n.of.grant.Hands,
	}
	for i, by := range cov.by {
		if !slices.Contains(n.on, by) {
			n.on = append(n.on, by)
		}
		if by == n.of { // the keys of the other leases have other tokens
			l.grant.Claims = append(l.grant.Claims, cov.claims[i])
		}
	}
	l.begin(ctx)
	return l
}

// heldIn returns the innermost lease of this engine in the chain that is in force and covers c
// or, without one, has c's key. It ignores leases of other engines, and leases that have ended.
func (e *Engine) heldIn(top *chain, c Claim) (held Claim, by *Lease, depth int) {
	for n := top; n != nil; n = n.next {
		if n.lease == nil || n.lease.engine != e {
			continue
		}
		for _, p := range n.lease.parts() {
			claim, has := p.claimOn(c.Key)
			if !has || n.lease.Err() != nil || by != nil && !covers(claim.Mode, c) {
				continue
			}
			if held, by, depth = claim, p, n.lease.level(); covers(held.Mode, c) {
				return held, by, depth
			}
		}
	}
	return held, by, depth
}
