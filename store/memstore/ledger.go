package memstore

import (
	"slices"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// record is a finished execution.
type record struct {
	driver.Record
	owner   string // the owner of the execution
	expires time.Time
}

func (r record) inForce(now time.Time) bool { return now.Before(r.expires) }

func clone(r driver.Record) driver.Record {
	r.Fingerprint, r.Result = slices.Clone(r.Fingerprint), slices.Clone(r.Result)
	return r
}

// complete keeps rec, which belongs to the store from then on, and releases. An execution has
// one exclusive claim. It locks.
func (m *memory) complete(g driver.Grant, rec driver.Record, retention time.Duration) error {
	if !isExecution(g.Claims) {
		return &driver.LeaseLostError{Token: g.Token, Reason: driver.LossTaken} // no such grant was ever made
	}
	key := g.Claims[0].Key
	s := m.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	e, h := s.find(g, key, now)
	if h == nil || e.phase.Mode != driver.ModeExclusive {
		if r := s.records[key]; r.owner == g.Owner && r.inForce(now) {
			return nil // a repetition
		}
		return s.lost(g, key, now)
	}
	s.sweep(now)
	s.records[key] = record{Record: rec, owner: g.Owner, expires: now.Add(retention)}
	s.tell(e, &rec)
	s.drop(e, h, now)
	return nil
}

func isExecution(claims []driver.Claim) bool {
	return len(claims) == 1 && claims[0].Mode == driver.ModeExclusive
}
