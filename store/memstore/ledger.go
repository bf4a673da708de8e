package memstore

import (
	"context"
	"slices"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/keystate"
)

// Begin implements [driver.Ledger]. An execution has one exclusive claim; anything else gets an
// error that matches [errors.ErrUnsupported].
func (s *Store) Begin(ctx context.Context, req driver.Request) (driver.Grant, *driver.Record, error) {
	if err := driver.CheckOnce(req.Claims); err != nil {
		return driver.Grant{}, nil, err
	}
	r := keystate.Request{Request: req, Once: true}
	a, err := s.acquire(ctx, &r)
	if a.rec == nil {
		return a.Grant, nil, err
	}
	rec := clone(*a.rec) // a copy, which the caller may change
	return driver.Grant{}, &rec, nil
}

func clone(r driver.Record) driver.Record {
	r.Fingerprint, r.Result = slices.Clone(r.Fingerprint), slices.Clone(r.Result)
	return r
}

// Complete implements [driver.Ledger].
func (s *Store) Complete(_ context.Context, g driver.Grant, rec driver.Record, retention time.Duration) (err error) {
	if driver.CheckOnce(g.Claims) != nil {
		return keystate.Lost(&g, "") // no such grant was ever made
	}
	s.mem.step(g.Claims, func(st *keystate.State) {
		kept, loss := st.Finish(&g, &keystate.Record{Record: clone(rec), Owner: g.Owner, Until: st.Now.Add(retention)})
		if err = s.mem.outcome(&g, loss, st.Now); err == nil {
			s.mem.shard(g.Claims[0].Key).records[g.Claims[0].Key] = kept
		}
	})
	return err
}

// Forget implements [driver.Inspector].
func (s *Store) Forget(_ context.Context, key string) (had bool, err error) {
	s.mem.step([]driver.Claim{{Key: key}}, func(st *keystate.State) {
		_ = st.Settle() // it fails only in a store that reads its waiters late
		shard, k := s.mem.shard(key), st.Keys[0]
		had = k.Record != nil || shard.versions[key].AdvanceVersion(0, 0, st.Now).N > 0
		k.Record = nil
		delete(shard.records, key)
		delete(shard.versions, key)
	})
	return had, nil
}

// AdvanceVersion implements [driver.Ledger].
func (s *Store) AdvanceVersion(_ context.Context, key string, version uint64, retention time.Duration) (uint64, error) {
	if s.life.Err() != nil {
		return 0, driver.ErrClosed
	}
	shard, now := s.mem.shard(key), time.Now()
	shard.mu.Lock()
	defer shard.mu.Unlock()
	newest := shard.versions[key].AdvanceVersion(version, retention, now)
	if version > 0 {
		shard.sweep(now)
		shard.versions[key] = newest
	}
	return newest.N, nil
}
