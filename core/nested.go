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

// nest is the part of a lease that has no grant of its own but leans on others.
// The store and the watchdog know nothing of it.
type nest struct {
	of    *Lease   // whose token, owner and deadline it shows; one of on
	on    []*Lease // with grants of their own: all of them have to be in force
	owned []*Lease // those among on that were obtained for it, and go with it
	ended atomic.Pointer[error]
}

// base is the lease with the grant that l goes by.
func (l *Lease) base() *Lease {
	if l.nest != nil {
		return l.nest.of
	}
	return l
}

// err is Lease.Err.
func (n *nest) err() error {
	if ended := n.ended.Load(); ended != nil {
		return *ended
	}
	if lost := n.loss(); lost != nil {
		return n.settle(lost)
	}
	return nil
}

// loss is what became of those it leans on.
func (n *nest) loss() error {
	for _, p := range n.on {
		switch err := p.Err(); {
		case err == nil:
		case errors.Is(err, ErrLeaseLost):
			return err
		default: // its holder released it while there was work to be done under it
			return p.lossError(driver.LossOuter)
		}
	}
	return nil
}

// settle notes how it ended, unless that is known by now, and returns the note.
func (n *nest) settle(err error) error {
	n.ended.CompareAndSwap(nil, &err)
	return *n.ended.Load()
}

// leave is Lease.Release.
func (l *Lease) leave(ctx context.Context) error {
	err := l.nest.loss()
	if err == nil {
		err = ErrReleased
	}
	err = l.nest.settle(err)
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
		l.nest.ended.Store(&err) // that may have come out just now
	}
	return err
}

// cover is how far a context holds what is asked for in it.
type cover struct {
	wanted  []Claim
	top     *chain
	rest    []Claim  // that it does not hold, in key order
	claims  []Claim  // that it does,
	by      []*Lease // each by which lease
	owned   []*Lease // obtained for this acquisition, by now
	depth   int      // of what is nested in them
	unwatch func()   // ends the watch over the owned; nil: there is none
	refused error    // it would wait for itself
}

// covers says whether who holds a key in mode m has all that c asks for. Of
// permits one is as good as another, whatever the number that each was one of.
func covers(m driver.Mode, c Claim) bool { return m == driver.ModeExclusive || m == c.Mode }

// left says whether anything is to be obtained.
func (cov *cover) left() bool { return cov == nil || len(cov.rest) > 0 }

// covered looks up what ctx holds by leases of this engine; nil: it has no lease,
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

// take leaves c to by, which has it in the mode of held.
func (cov *cover) take(c, held Claim, by *Lease, depth int, s *settings) {
	if s.once || !covers(held.Mode, c) {
		cov.refused = &driver.DeadlockError{Key: c.Key, Held: held, Wanted: c, Once: s.once}
		return
	}
	cov.claims = append(cov.claims, c)
	cov.by = append(cov.by, by)
	cov.depth = max(cov.depth, depth)
}

// nested makes a lease of what ctx holds. Rest is the lease on what it did not
// hold, if there was anything.
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
		if by == n.of { // the others' keys have other tokens
			l.grant.Claims = append(l.grant.Claims, cov.claims[i])
		}
	}
	l.begin(ctx)
	return l
}

// heldIn returns the innermost lease of this engine in the chain that has c's
// key and is in force, rather one that covers c than another. A lease of another
// engine, or of none that is in force, says nothing.
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
