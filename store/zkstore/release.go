package zkstore

import (
	"context"

	"github.com/keyturn/keyturn/core/driver"
)

// Acquire implements [driver.Store]. A claim on a key that the owner holds in another mode gets
// a [*driver.DeadlockError].
func (s *Store) Acquire(ctx context.Context, req driver.Request) (driver.Grant, error) {
	return s.ops.Acquire(ctx, req)
}

// Release implements [driver.Store].
func (s *Store) Release(ctx context.Context, g driver.Grant) error {
	return s.ops.Release(ctx, g, func(ctx context.Context) (done, unsure bool, err error) {
		done, unsure = s.shortRelease(ctx, g)
		return done, unsure, nil
	})
}

// Downgrade implements [driver.Store].
func (s *Store) Downgrade(ctx context.Context, g driver.Grant) error { return s.ops.Downgrade(ctx, g) }

// ForceRelease implements [driver.Inspector]. Owners can learn the reason for an hour.
func (s *Store) ForceRelease(ctx context.Context, key, reason string, only ...driver.Holder) ([]driver.Holder, error) {
	return s.ops.ForceRelease(ctx, key, reason, only...)
}
