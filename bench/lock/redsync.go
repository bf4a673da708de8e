package lock

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// quorum is github.com/go-redsync/redsync with one pool, so that its quorum is of
// one and it asks no more than the others. Tries are without end, as the default
// of 32 gives up under contention, and their delays grow as redislock's do.
// Renewing is by hand, with Extend.
type quorum struct {
	client redis.UniversalClient
	locks  *redsync.Redsync
	cfg    Config
}

func openRedsync(cfg Config) (Locker, error) {
	client := newClient(cfg)
	return &quorum{client: client, locks: redsync.New(goredis.NewPool(client)), cfg: cfg}, nil
}

func (s *quorum) Lock(ctx context.Context, key string) (Unlock, error) {
	mutex := s.locks.NewMutex(
		"lock:"+key,
		redsync.WithExpiry(s.cfg.TTL),
		redsync.WithTries(math.MaxInt32),
		redsync.WithRetryDelayFunc(growingDelay),
	)
	if err := mutex.LockContext(ctx); err != nil {
		return nil, err
	}
	stop := func() {}
	if s.cfg.Renew {
		stop = renewing(s.cfg.TTL, func(ctx context.Context) { _, _ = mutex.ExtendContext(ctx) })
	}
	return func(ctx context.Context) error {
		stop()
		if ok, err := mutex.UnlockContext(ctx); err != nil || !ok {
			return fmt.Errorf("unlock %q: was held: %v: %w", key, ok, err)
		}
		return nil
	}, nil
}

// growingDelay doubles from firstDelay to maxDelay, with some chance in it: a
// try here costs the server three commands, and waiters that came together
// would else try together for ever.
func growingDelay(tries int) time.Duration {
	delay := min(firstDelay<<min(tries, 10), maxDelay)
	return delay/2 + rand.N(delay)
}

func (s *quorum) Once(ctx context.Context, key string, fn func()) error {
	return onceByHand(ctx, s, s.client, key, fn)
}

func (s *quorum) Close() error { return s.client.Close() }
