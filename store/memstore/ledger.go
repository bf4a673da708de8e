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
func (m *memory) complete(g core.Grant, rec core.Record, retention time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	key, _, ok := m.owned(g, now)
	if !ok {
		if r := m.records[key]; r.owner == g.Owner && r.inForce(now) {
			return nil // said before
		}
		return lost(g, key)
	}
	m.sweep(now)
	m.records[key] = record{Record: rec, owner: g.Owner, expires: now.Add(retention)}
	delete(m.leases, key)
	m.tell(key, &rec)
	m.serve(key, now)
	return nil
}
