package memstore

import (
	"context"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Downgrade implements [driver.Store].
func (s *Store) Downgrade(_ context.Context, g driver.Grant) error {
	if s.isClosed() {
		return driver.ErrClosed
	}
	return s.mem.downgrade(g)
}

// downgrade gives all claims of g their modes and another term, or none. It locks.
func (m *memory) downgrade(g driver.Grant) error {
	defer m.unlock(m.lock(g.Claims))
	now := time.Now()
	for _, c := range g.Claims {
		s := m.shard(c.Key)
		e, h := s.find(g, c.Key, now)
		if h == nil || h.released || g.Token == 0 || e.phase.Mode != c.Mode && !e.isDowngrade(c) {
			return s.lost(g, c.Key, now)
		}
	}
	for _, c := range g.Claims {
		s := m.shard(c.Key)
		e, h := s.find(g, c.Key, now)
		e.extend(h, g.TTL, now)
		if e.isDowngrade(c) {
			e.phase = e.place().Shared()
			s.admitNext(e, now)
			e.wind(now)
		}
	}
	return noClaims(g)
}

// isDowngrade reports whether the key's holder gives something up by having it as c says.
func (e *entry) isDowngrade(c driver.Claim) bool {
	return e.phase.Mode == driver.ModeExclusive && c.Mode == driver.ModeShared
}
