package lock

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// retention is how long executions are remembered.
const retention = time.Hour

// onceByHand is what users of a plain lock write themselves: under the lock, look for a mark,
// do the work, leave the mark. A first execution takes four round trips, a repeat three.
func onceByHand(ctx context.Context, l Locker, client redis.Cmdable, key string, fn func()) error {
	unlock, err := l.Lock(ctx, key)
	if err != nil {
		return err
	}
	err = markOnce(ctx, client, "done:"+key, fn)
	return errors.Join(err, unlock(ctx))
}

func markOnce(ctx context.Context, client redis.Cmdable, mark string, fn func()) error {
	err := client.Get(ctx, mark).Err()
	if !errors.Is(err, redis.Nil) {
		return err // nil: it was done before
	}
	fn()
	return client.Set(ctx, mark, "", retention).Err()
}
