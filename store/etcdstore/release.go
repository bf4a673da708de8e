package etcdstore

import (
	"context"
	"encoding/json"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/keystate"
)

// Acquire implements [driver.Store]. A claim on a key that the owner holds in another mode gets
// a [*driver.DeadlockError].
func (s *Store) Acquire(ctx context.Context, req driver.Request) (driver.Grant, error) {
	return s.ops.Acquire(ctx, req)
}

// Release implements [driver.Store].
func (s *Store) Release(ctx context.Context, g driver.Grant) error {
	if g.MinHold%time.Second != 0 || g.MinHold < 0 {
		return &driver.OptionError{Option: "MinHold", Value: g.MinHold, Want: "whole seconds"}
	}
	return s.ops.Release(ctx, g, nil)
}

// Downgrade implements [driver.Store].
func (s *Store) Downgrade(ctx context.Context, g driver.Grant) error { return s.ops.Downgrade(ctx, g) }

// ForceRelease implements [driver.Inspector]. Owners can learn the reason for an hour. If more than 24
// leases are to be ended, that takes several steps.
func (s *Store) ForceRelease(ctx context.Context, key, reason string, only ...driver.Holder) ([]driver.Holder, error) {
	return s.ops.ForceRelease(ctx, key, reason, only...)
}

// explain finds out whether owner has lost a lease by force.
func (s *Store) explain(ctx context.Context, owner string, loss *driver.LeaseLostError) error {
	r, err := s.client.Get(ctx, s.base(loss.Key)+forcedPart+owner)
	if err != nil {
		return err
	}
	for _, kv := range r.Kvs {
		var why forcedValue
		if err := json.Unmarshal(kv.Value, &why); err != nil {
			return foreign(kv, err)
		}
		keystate.Explain(loss, why.Token, string(why.Reason))
	}
	return nil
}
