package migrating

import (
	"context"

	"github.com/redis/rueidis/rueidislock"
)

func withRueidislock(ctx context.Context, locks rueidislock.Locker, order string, charge work) error {
	ctx, unlock, err := locks.WithContext(ctx, "order:"+order)
	if err != nil {
		return err
	}
	defer unlock()
	return charge(ctx)
}
