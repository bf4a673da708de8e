package locktest

import (
	"context"

	"github.com/keyturn/keyturn/core/driver"
)

// Inspect implements [driver.Inspector].
func (s *Store) Inspect(ctx context.Context, key string) (info driver.LockInfo, err error) {
	err = s.exchange(ctx, "inspect", func() (err error) {
		info, err = s.mem.Inspect(ctx, key)
		return err
	})
	return info, err
}

// List implements [driver.Inspector].
func (s *Store) List(ctx context.Context, q driver.Listing) (page []driver.LockInfo, next string, err error) {
	err = s.exchange(ctx, "list", func() (err error) {
		page, next, err = s.mem.List(ctx, q)
		return err
	})
	return page, next, err
}

// ForceRelease implements [driver.Inspector]. Unlike [Store.Lose], it also ends the leases of
// other engines, and holders learn the reason.
func (s *Store) ForceRelease(ctx context.Context, key, reason string, only ...driver.Holder) (had []driver.Holder, err error) {
	err = s.exchange(ctx, "force", func() (err error) {
		had, err = s.mem.ForceRelease(ctx, key, reason, only...)
		return err
	})
	return had, err
}

// Forget implements [driver.Inspector].
func (s *Store) Forget(ctx context.Context, key string) (had bool, err error) {
	err = s.exchange(ctx, "forget", func() (err error) {
		had, err = s.mem.Forget(ctx, key)
		return err
	})
	return had, err
}
