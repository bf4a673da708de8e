package memstore

import (
	"slices"
	"time"

	"github.com/keyturn/keyturn/core"
)

// record is a finished execution.
type record struct {
	core.Record
	owner   string // whose execution it was
	expires time.Time
}

func (r record) inForce(now time.Time) bool { return now.Before(r.expires) }

func clone(r core.Record) core.Record {
	return core.Record{Fingerprint: slices.Clone(r.Fingerprint), Result: slices.Clone(r.Result)}
}

// complete keeps rec, which is the store's from then on, and releases.
func (s *shard) complete(g core.Grant, rec core.Record, retention time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	key, _, ok := s.owned(g, now)
	if !ok {
		if r := s.records[key]; r.owner == g.Owner && r.inForce(now) {
			return nil // said before
		}
		return lost(g, key)
	}
	s.sweep(now)
	s.records[key] = record{Record: rec, owner: g.Owner, expires: now.Add(retention)}
	delete(s.leases, key)
	s.tell(key, &rec)
	s.serve(key, now)
	return nil
}
