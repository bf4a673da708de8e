package memstore

import (
	"time"

	"github.com/keyturn/keyturn/core"
)

// find returns the lease that g has on key, as of now; nil: none. Token 0 is
// that of an owner who was not told. Lock before.
func (m *memory) find(g core.Grant, key string, now time.Time) (*shard, *entry, *holder) {
	s := m.shard(key)
	e := s.entries[key]
	if e == nil {
		return s, nil, nil
	}
	h := e.find(g.Owner)
	if h == nil || !now.Before(h.expires) || (g.Token != 0 && g.Token != h.token) {
		return s, e, nil
	}
	return s, e, h
}

// renew extends all leases of g, or none.
func (m *memory) renew(g core.Grant, now time.Time) error {
	defer m.unlock(m.lock(g.Claims))
	for _, c := range g.Claims {
		s, e, h := m.find(g, c.Key, now)
		if h == nil || g.Token == 0 || e.mode != c.Mode {
			return s.lost(g, c.Key, now)
		}
		if len(g.Claims) == 1 {
			e.extend(h, now.Add(g.TTL), now)
			return nil
		}
	}
	for _, c := range g.Claims {
		_, e, h := m.find(g, c.Key, now)
		e.extend(h, now.Add(g.TTL), now)
	}
	return noClaims(g)
}

// release ends those leases of g that are in force.
func (m *memory) release(g core.Grant) error {
	defer m.unlock(m.lock(g.Claims))
	now := time.Now()
	lost := noClaims(g)
	for _, c := range g.Claims {
		s, e, h := m.find(g, c.Key, now)
		if h != nil {
			s.drop(e, h, now)
		} else if lost == nil {
			lost = s.lost(g, c.Key, now)
		}
	}
	return lost
}

// noClaims is the answer for a grant that no Acquire gave.
func noClaims(g core.Grant) error {
	if len(g.Claims) > 0 {
		return nil
	}
	return &core.LeaseLostError{Token: g.Token, Reason: core.LossTaken}
}

// lost says how g lost key.
func (s *shard) lost(g core.Grant, key string, now time.Time) error {
	if n, ok := s.forced[lease{key, g.Owner}]; ok && now.Before(n.until) {
		return &core.LeaseLostError{Key: key, Token: g.Token, Reason: core.LossForced, Detail: n.reason}
	}
	return &core.LeaseLostError{Key: key, Token: g.Token, Reason: core.LossTaken}
}
