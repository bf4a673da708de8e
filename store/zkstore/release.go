package zkstore

import (
	"context"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/casstore"
	"github.com/keyturn/keyturn/internal/keystate"
)

// Acquire implements [driver.Store]. A claim on a key that the owner holds in another mode gets
// a [*driver.DeadlockError].
func (s *Store) Acquire(ctx context.Context, req driver.Request) (driver.Grant, error) {
	return s.ops.Acquire(ctx, req)
}

// Release implements [driver.Store].
func (s *Store) Release(ctx context.Context, g driver.Grant) error {
	return s.ops.Release(ctx, g, func(ctx context.Context) (done, unsure bool, err error) {
		short := s.leave
		if isPlain(g.Claims) {
			short = s.shortRelease
		}
		done, unsure = short(ctx, g)
		return done, unsure, nil
	})
}

// leave ends a lease beside others, of a reader or of one with a permit. If that lets nobody in, it is no decision: those
// who leave together need not read each other, and refuse nobody's request. Whether the others are alive it does not
// know, so somebody decides if only one is left.
func (s *Store) leave(ctx context.Context, g driver.Grant) (done, unsure bool) {
	p, err := s.link.get(ctx, patience)
	if err != nil || len(g.Claims) > 1 || g.MinHold > 0 {
		return false, false
	}
	c := g.Claims[0]
	path := s.lockPath(c.Key)
	n, all, err := place(p, path, nodeID(g.Owner))
	now, known := p.clock.now()
	letsIn := func(all children, others int) bool {
		return len(all.waiters) > 0 && (c.Mode != driver.ModeShared || others < 2)
	}
	if err != nil || !known || now.doubts(n) || !renewable(n, g, c, now) || letsIn(all, len(all.holders)-1) {
		return false, false
	}
	if err := p.Delete(path+"/"+n.name, n.stat.Version); err != nil {
		return false, isBroken(err)
	}
	names, _, err := p.Children(path)
	if all := parseChildren(names); err != nil || letsIn(all, len(all.holders)) {
		// Somebody has come, or the others have left. If this fails, the first waiter notices by itself.
		_, _ = s.decide(ctx, casstore.Aim{Keys: []string{c.Key}}, (*keystate.State).Settle)
	}
	return true, false
}

// Downgrade implements [driver.Store].
func (s *Store) Downgrade(ctx context.Context, g driver.Grant) error { return s.ops.Downgrade(ctx, g) }

// ForceRelease implements [driver.Inspector]. Owners can learn the reason for an hour.
func (s *Store) ForceRelease(ctx context.Context, key, reason string, only ...driver.Holder) ([]driver.Holder, error) {
	return s.ops.ForceRelease(ctx, key, reason, only...)
}
