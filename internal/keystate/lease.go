package keystate

import (
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Renew gives all claims of a grant another term, or none.
func (s *State) Renew(g *driver.Grant) error {
	if err := s.Settle(); err != nil {
		return err
	}
	for i, k := range s.Keys {
		if m := k.Find(g.Owner); m == nil || !Renewable(m, g, g.Claims[i]) {
			return Lost(g, k.Name)
		}
	}
	for _, k := range s.Keys {
		m := k.Find(g.Owner)
		if !g.Borrowed {
			s.extend(k, m, g.TTL)
		} else if until := s.end(g.TTL); until.After(m.Until) {
			m.Until, m.Extended = until, true // the owner's term may be longer, and then stays (N7)
		}
	}
	return nil
}

// Renewable reports whether m, which is what the grant's owner has, is what the grant says of claim c (N5,
// N7).
func Renewable(m *Member, g *driver.Grant, c driver.Claim) bool {
	return !m.Waits && !m.Released && g.Token != 0 && m.Token == g.Token && m.Mode == c.Mode &&
		!(g.Borrowed && (g.TTL > m.TTL || g.HandedOn > m.Reserved))
}

// Downgrade is Renew of a grant whose claims may be shared where they are exclusive: those become shared,
// and the waiting shared requests enter (M5).
func (s *State) Downgrade(g *driver.Grant) error {
	if err := s.Settle(); err != nil {
		return err
	}
	for i, c := range g.Claims {
		m := s.Keys[i].Holding(g.Owner, g.Token)
		if m == nil || m.Released || g.Token == 0 || m.Mode != c.Mode && !isDowngrade(m, c) {
			return Lost(g, c.Key)
		}
	}
	for i, c := range g.Claims {
		k := s.Keys[i]
		m := k.Holding(g.Owner, g.Token)
		s.extend(k, m, g.TTL)
		if isDowngrade(m, c) {
			m.Mode = c.Mode
			k.Phase = k.shared()
		}
	}
	return s.Settle()
}

func isDowngrade(m *Member, c driver.Claim) bool {
	return m.Mode == driver.ModeExclusive && c.Mode == driver.ModeShared
}

// Lost is the error of a grant that has lost key. Whether it was taken by force, the store finds out.
func Lost(g *driver.Grant, key string) *driver.LeaseLostError {
	return &driver.LeaseLostError{Key: key, Token: g.Token, Reason: driver.LossTaken}
}

// Release ends the grant's leases, or has them stay (R6). The error is that of the first claim that was
// lost. The others are released nevertheless, so a store writes what has changed in spite of it (R5).
func (s *State) Release(g *driver.Grant) (loss, err error) {
	if err := s.Settle(); err != nil {
		return nil, err
	}
	for i, c := range g.Claims {
		k := s.Keys[i]
		m := k.Holding(g.Owner, g.Token)
		switch {
		case m == nil:
			s.Refused = true
			if loss == nil {
				loss = Lost(g, c.Key)
			}
		case g.MinHold > 0:
			m.Released = true
			s.extend(k, m, g.MinHold)
		default:
			k.end(m)
		}
	}
	return loss, s.Settle()
}

// Record is a finished execution, and whose it was.
type Record struct {
	driver.Record
	Owner string
	Until time.Time // when it ends; zero: the backend ends it
}

// Finish keeps a record and releases the execution's lease, which is the grant's only claim. The
// waiters for the record are told. If the record is there already, as after a repeated call (L5), it
// stays, and Finish returns it.
func (s *State) Finish(g *driver.Grant, rec *Record) (*Record, error) {
	if err := s.Settle(); err != nil {
		return nil, err
	}
	k := s.Keys[0]
	m := k.Holding(g.Owner, g.Token)
	if m == nil || m.Mode != driver.ModeExclusive {
		if k.Record != nil && k.Record.Owner == g.Owner {
			return k.Record, nil
		}
		return nil, Lost(g, k.Name)
	}
	k.Record = rec
	k.end(m)
	return rec, s.Settle()
}

// Version is the greatest version that a key was given.
type Version struct {
	N     uint64
	Until time.Time // when it is forgotten
}

// AdvanceVersion returns the version that is to be kept once n was given at the moment now (L9 to L11). n 0 only
// asks.
func (v Version) AdvanceVersion(n uint64, retention time.Duration, now time.Time) Version {
	if !now.Before(v.Until) {
		v = Version{}
	}
	if n > 0 {
		v = Version{N: max(n, v.N), Until: now.Add(retention)}
	}
	return v
}
