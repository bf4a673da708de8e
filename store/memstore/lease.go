package memstore

import (
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// find returns the lease that g has on key, as of now; nil: none. Token 0 stands for an owner
// that was not told its token.
func (s *shard) find(g driver.Grant, key string, now time.Time) (*entry, *holder) {
	e := s.entries[key]
	if e == nil {
		return nil, nil
	}
	h := e.find(g.Owner)
	if h == nil || !now.Before(h.expires) || (g.Token != 0 && g.Token != h.token) {
		return e, nil
	}
	return e, h
}

// current is find with more checks: the token must be given, the mode must be that of c, and a
// borrower's TTL and hand-offs must not exceed the lease's. Otherwise it returns the error of a
// loss.
func (s *shard) current(g driver.Grant, c driver.Claim, now time.Time) (*entry, *holder, error) {
	e, h := s.find(g, c.Key, now)
	if h == nil || h.released || g.Token == 0 || e.phase.Mode != c.Mode || g.Borrowed && (g.TTL > h.ttl || g.HandOffs > h.reserved) {
		return nil, nil, s.lost(g, c.Key, now)
	}
	return e, h, nil
}

// renew extends g's lease on c.
func (s *shard) renew(g driver.Grant, c driver.Claim, now time.Time) error {
	e, h, err := s.current(g, c, now)
	switch {
	case err != nil:
		return err
	case g.Borrowed:
		e.lend(h, g.TTL, now)
	default:
		e.extend(h, g.TTL, now)
	}
	return nil
}

// release ends g's lease on key.
func (s *shard) release(g driver.Grant, key string, now time.Time) error {
	e, h := s.find(g, key, now)
	if h == nil {
		return s.lost(g, key, now)
	}
	if g.Stay > 0 {
		s.stay(e, h, g, now)
	} else {
		s.drop(e, h, now)
	}
	return nil
}

// lost returns the error that says how g lost key.
func (s *shard) lost(g driver.Grant, key string, now time.Time) error {
	if reason, ok := s.forced.find(lease{key, g.Owner}, now); ok {
		return &driver.LeaseLostError{Key: key, Token: g.Token, Reason: driver.LossForced, Detail: reason}
	}
	return &driver.LeaseLostError{Key: key, Token: g.Token, Reason: driver.LossTaken}
}

// renew extends all leases of g, or none. It locks.
func (m *memory) renew(g driver.Grant, now time.Time) error {
	if len(g.Claims) == 1 { // most calls take this path, at half the cost
		c := g.Claims[0]
		s := m.shard(c.Key)
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.renew(g, c, now)
	}
	defer m.unlock(m.lock(g.Claims))
	for _, c := range g.Claims {
		if _, _, err := m.shard(c.Key).current(g, c, now); err != nil {
			return err
		}
	}
	for _, c := range g.Claims {
		_ = m.shard(c.Key).renew(g, c, now) // the lease was there just now
	}
	return noClaims(g)
}

// release ends the leases of g that are in force. It locks.
func (m *memory) release(g driver.Grant) error {
	if len(g.Claims) == 1 {
		key := g.Claims[0].Key
		s := m.shard(key)
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.release(g, key, time.Now())
	}
	defer m.unlock(m.lock(g.Claims))
	now, first := time.Now(), noClaims(g)
	for _, c := range g.Claims {
		if err := m.shard(c.Key).release(g, c.Key, now); first == nil {
			first = err
		}
	}
	return first
}

// noClaims is the error for a grant that no Acquire returned.
func noClaims(g driver.Grant) error {
	if len(g.Claims) > 0 {
		return nil
	}
	return &driver.LeaseLostError{Token: g.Token, Reason: driver.LossTaken}
}
