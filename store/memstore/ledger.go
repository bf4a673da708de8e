package memstore

import (
	"context"
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

// record returns what is on record for key, as a copy that the caller may
// keep, or nil.
func (s *Store) record(key string, now time.Time) *core.Record {
	r, ok := s.records[key]
	if !ok || !now.Before(r.expires) {
		return nil
	}
	rec := clone(r.Record)
	return &rec
}

func clone(r core.Record) core.Record {
	return core.Record{Fingerprint: slices.Clone(r.Fingerprint), Result: slices.Clone(r.Result)}
}

// Begin implements [core.Ledger].
func (s *Store) Begin(ctx context.Context, req core.Request) (core.Grant, *core.Record, error) {
	a, err := s.acquire(ctx, req, true)
	return a.grant, a.rec, err
}

// Complete implements [core.Ledger].
func (s *Store) Complete(_ context.Context, g core.Grant, rec core.Record, retention time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.owned(g, now) == nil {
		if len(g.Claims) == 1 {
			if r, ok := s.records[g.Claims[0].Key]; ok && r.owner == g.Owner && now.Before(r.expires) {
				return nil // said before
			}
		}
		return lost(g)
	}
	s.sweep(now)
	s.records[g.Claims[0].Key] = record{Record: clone(rec), owner: g.Owner, expires: now.Add(retention)}
	return s.release(g, now)
}
