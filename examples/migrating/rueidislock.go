package migrating

import (
	"context"

	"github.com/redis/rueidis/rueidislock"
)

// snippet

func withRueidislock(ctx context.Context, locks rueidislock.Locker, order string, charge work) error {
	ctx, unlock, err := locks.WithContext(ctx, "order:"+order)
	if err != nil {
		return err
	}
	defer unlock()
	return charge(ctx)
}

// end snippet
