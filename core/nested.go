package core

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/keyturn/keyturn/core/driver"
)

// nest is the state of a lease that has no grant of its own but depends on other leases. The
// store and the watchdog do not know it.
type nest struct {
	// outer are leases with grants of their own, all of which have to be in force. Token and owner are
	// the first one's.
	outer []*Lease
	owned []*Lease // those of outer that were obtained for it, and are released with it
	ended atomic.Pointer[error]
}

// base returns the lease whose grant l uses.
func (l *Lease) base() *Lease {
	if l.nest != nil {
		return l.nest.outer[0]
	}
	return l
}

// obtained reports whether key was taken for it, because the context did not hold it.
func (n *nest) obtained(key string) bool {
	return slices.ContainsFunc(n.owned, func(p *Lease) bool {
		_, has := p.claimOn(key)
		return has && p.borrowed == nil
	})
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
	for _, p := range n.outer {
		if err := p.outerLoss(); err != nil {
			return err
		}
	}
	return nil
}

// outerLoss returns how the lease ended for those that depend on it; nil: it is in force.
func (l *Lease) outerLoss() error {
	err := l.Err()
	if err == nil || errors.Is(err, ErrLeaseLost) {
		return err
	}
	return l.lossError(driver.LossOuter) // its holder released it while work went on under it
}

// noteEnd notes how it ended, unless that was noted before, and returns the note.
func (n *nest) noteEnd(err error) error {
	n.ended.CompareAndSwap(nil, &err)
	return *n.ended.Load()
}

// releaseNested implements Lease.Release.
func (l *Lease) releaseNested(ctx context.Context) error {
	err := l.nest.loss()
	if err == nil {
		err = ErrReleased
	}
	err = l.nest.noteEnd(err)
	l.finished.signal()
	for _, p := range l.nest.outer {
		p.finished.unfollow(l)
	}
	if !l.releasedEarly() {
		l.cancel(err)
	}
	if errors.Is(err, ErrReleased) {
		err = nil
	}
	for _, p := range slices.Backward(l.nest.owned) {
		if l.releasedEarly() { // l's context descends from p's
			p.state.Or(early)
		}
		if own := p.free(ctx); err == nil {
			err = own
		}
	}
	if errors.Is(err, ErrLeaseLost) {
		l.nest.ended.Store(&err) // the release may have revealed a loss
	}
	return err
}

// nested makes a lease of what ctx holds. rest is the lease on what ctx did not hold; nil if it
// held everything.
func (e *Engine) nested(ctx context.Context, cov *cover, rest *Lease, s *settings) *Lease {
	n := &nest{owned: cov.owned}
	l := &Lease{engine: e, terms: s.terms(), nest: n, depth: int32(cov.depth)}
	if rest != nil {
		n.outer, n.owned, l.depth = []*Lease{rest}, append(n.owned, rest), rest.depth
	}
	l.grant.Claims = cov.rest
	for i, holder := range cov.holders {
		if !slices.Contains(n.outer, holder) {
			n.outer = append(n.outer, holder)
		}
		if holder == n.outer[0] { // the keys of the other leases have other tokens
			l.grant.Claims = append(l.grant.Claims, cov.claims[i])
		}
	}
	shown := l.base().grant
	l.grant.Owner, l.grant.Token, l.grant.HandedOn = shown.Owner, shown.Token, shown.HandedOn
	l.begin(ctx)
	return l
}
