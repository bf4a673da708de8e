package natsstore

import (
	"context"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/casstore"
	"github.com/keyturn/keyturn/internal/keystate"
)

// Acquire implements [driver.Store].
func (s *Store) Acquire(ctx context.Context, req driver.Request) (driver.Grant, error) {
	return s.ops.Acquire(ctx, req)
}

// Renew implements [driver.Store].
func (s *Store) Renew(ctx context.Context, grants []driver.Grant) []error {
	return s.ops.Renew(ctx, grants)
}

// Downgrade implements [driver.Store].
func (s *Store) Downgrade(ctx context.Context, g driver.Grant) error { return s.ops.Downgrade(ctx, g) }

// Release implements [driver.Store].
func (s *Store) Release(ctx context.Context, g driver.Grant) error { return s.ops.Release(ctx, g, nil) }

// ForceRelease implements [driver.Inspector]. Owners can learn the reason for an hour.
func (s *Store) ForceRelease(ctx context.Context, key, reason string, only ...driver.Holder) ([]driver.Holder, error) {
	return s.ops.ForceRelease(ctx, key, reason, only...)
}

// Begin implements [driver.Ledger]. An execution has one exclusive claim; anything else gets an error that
// matches [errors.ErrUnsupported].
func (s *Store) Begin(ctx context.Context, req driver.Request) (driver.Grant, *driver.Record, error) {
	return s.ops.Begin(ctx, req)
}

// Complete implements [driver.Ledger]. A result for which a value has no room (max_payload of the server) is
// not kept.
func (s *Store) Complete(ctx context.Context, g driver.Grant, rec driver.Record, retention time.Duration) error {
	return s.ops.Complete(ctx, g, rec, retention, func(keep *keystate.Record) bool {
		return int64(len(keep.Result))*4/3 <= s.nc.MaxPayload()/2 // the other half is for the queue
	})
}

// AdvanceVersion implements [driver.Ledger].
func (s *Store) AdvanceVersion(ctx context.Context, key string, n uint64, retention time.Duration) (uint64, error) {
	return s.ops.AdvanceVersion(ctx, key, n, retention, func(ctx context.Context) (newest uint64, err error) {
		_, err = s.transact(ctx, casstore.Aim{Keys: []string{key}, Looks: true}, func(t *tx) error {
			var has keystate.Version
			e := t.entries[0]
			if v := e.Version; v != nil {
				has = keystate.Version{N: v.N, Until: v.Until}
			}
			if has = has.AdvanceVersion(n, retention, t.Now); n > 0 {
				e.Version = &version{has.N, has.Until}
			}
			newest = has.N
			return nil
		})
		return newest, err
	})
}

// Forget implements [driver.Inspector].
func (s *Store) Forget(ctx context.Context, key string) (bool, error) {
	return s.ops.Forget(ctx, key, func(ctx context.Context) (had bool, err error) {
		_, err = s.transact(ctx, casstore.Aim{Keys: []string{key}, Looks: true}, func(t *tx) error {
			if err := t.Settle(); err != nil {
				return err
			}
			k, e := t.Keys[0], t.entries[0]
			// An attempt that was carried out without an answer has dropped it already.
			had = had || k.Record != nil || e.Version != nil && t.Now.Before(e.Version.Until)
			k.Record, e.Version = nil, nil
			return nil
		})
		return had, err
	})
}
