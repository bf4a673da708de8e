package etcdstore

import (
	"context"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Downgrade implements [driver.Store].
func (s *Store) Downgrade(ctx context.Context, g driver.Grant) error {
	if err := s.check(g.Owner, g.Claims, g.TTL); err != nil {
		return err
	}
	if err := s.calls.Enter(); err != nil {
		return err
	}
	defer s.calls.Leave()
	fresh, err := s.leases.grant(ctx, g.TTL)
	if err == nil {
		err = inParts(g.Claims, func(claims []driver.Claim) error {
			err := s.transact(ctx, driver.Keys(claims), look, func(t *tx) error { return t.downgrade(g, claims, fresh) })
			return err
		})
	}
	return failure("downgrade", g.Claims[0].Key, err)
}

// downgrade makes exclusive claims shared ones, if they are to be, and gives all of them another term.
func (t *tx) downgrade(g driver.Grant, claims []driver.Claim, fresh *lease) error {
	for i, c := range claims {
		m := t.locks[i].members.Holding(g.Owner, g.Token)
		was := c
		if m != nil && c.Mode == driver.ModeShared && m.Mode == driver.ModeExclusive {
			was.Mode = m.Mode
		}
		if !m.isOf(g, was) {
			return t.lost(c.Key, g)
		}
	}
	for i, c := range claims {
		l := t.locks[i]
		m := l.members.Holding(g.Owner, g.Token)
		t.attach(m, fresh, len(g.Claims))
		m.TTL = int64(g.TTL / time.Second)
		if m.Mode != c.Mode {
			phase := l.place().Downgraded()
			m.Mode = c.Mode
			l.setPhase(phase)
			l.decided = true
		}
	}
	return nil
}
