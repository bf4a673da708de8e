package zkstore

import (
	"context"

	"github.com/keyturn/keyturn/core/driver"
)

// Release implements [driver.Store].
func (s *Store) Release(ctx context.Context, g driver.Grant) error {
	return s.ops.Release(ctx, g, func(ctx context.Context) (done, unsure bool) { return s.shortRelease(ctx, g) })
}

// Downgrade implements [driver.Store].
func (s *Store) Downgrade(ctx context.Context, g driver.Grant) error { return s.ops.Downgrade(ctx, g) }
