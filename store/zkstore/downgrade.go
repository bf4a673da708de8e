package zkstore

import (
	"context"

	"github.com/keyturn/keyturn/core/driver"
)

// Downgrade implements [driver.Store].
func (s *Store) Downgrade(ctx context.Context, g driver.Grant) error {
	return s.about(ctx, "downgrade", g, false, func(t *tx) error {
		isDowngrade := func(m *member, c driver.Claim) bool {
			return m.mode == driver.ModeExclusive && c.Mode == driver.ModeShared
		}
		members, err := t.mine(g, func(m *member, c driver.Claim) bool {
			return !m.Released && g.Token != 0 && (m.mode == c.Mode || isDowngrade(m, c))
		})
		if err != nil {
			return err
		}
		for i, m := range members {
			t.extend(m, g.TTL)
			if c := g.Claims[i]; isDowngrade(m, c) {
				l := t.lock(c.Key)
				m.mode, l.Phase, l.altered = c.Mode, l.Downgraded(), true
			}
		}
		return nil
	})
}
