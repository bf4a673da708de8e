package migrating

import (
	"context"
	"time"

	"github.com/bsm/redislock"
)

func withRedislock(ctx context.Context, locks *redislock.Client, order string, charge work) error {
	lock, err := locks.Obtain(ctx, "order:"+order, 30*time.Second, &redislock.Options{
		RetryStrategy: redislock.LinearBackoff(50 * time.Millisecond),
	})
	if err != nil {
		return err
	}
	defer lock.Release(context.WithoutCancel(ctx))
	return charge(ctx) // which calls lock.Refresh if it takes long
}
