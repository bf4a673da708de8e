package lock

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
)

// openRedsync opens github.com/go-redsync/redsync with one pool, so its quorum is one, and it asks
// no more servers than the others. It tries without limit, because the default of 32 tries gives
// up under contention. Its delays grow like redislock's. A goroutine renews with Extend.
func openRedsync(cfg Config) (*Locker, error) {
	client := newClient(cfg)
	locks := redsync.New(goredis.NewPool(client))
	return peer(client, func(ctx context.Context, key string) (Unlock, error) {
		mutex := locks.NewMutex(
			"lock:"+key,
			redsync.WithExpiry(cfg.TTL),
			redsync.WithTries(math.MaxInt32),
			redsync.WithRetryDelayFunc(growingDelay),
		)
		if err := mutex.LockContext(ctx); err != nil {
			return nil, err
		}
		return renewing(cfg, func(ctx context.Context) { _, _ = mutex.ExtendContext(ctx) }, func(ctx context.Context) error {
			if ok, err := mutex.UnlockContext(ctx); err != nil || !ok {
				return fmt.Errorf("unlock %q: was held: %v: %w", key, ok, err)
			}
			return nil
		}), nil
	}), nil
}

// growingDelay doubles from firstDelay to maxDelay, with some jitter. A try costs the server
// three commands here. Without jitter, waiters that came together would try together for ever.
func growingDelay(tries int) time.Duration {
	delay := min(firstDelay<<min(tries, 10), maxDelay)
	return delay/2 + rand.N(delay)
}
