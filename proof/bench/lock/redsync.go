package lock

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/go-redsync/redsync/v4"
	driver "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
)

// quorum is github.com/go-redsync/redsync with a pool for each independent node. Elsewhere it has
// one pool, so its quorum is one, and it asks no more servers than the others. It tries without limit, because the default of 32 tries gives
// up under contention. Its delays grow like redislock's. A goroutine renews with Extend.
type quorum struct {
	clients clients
	locks   *redsync.Redsync
	cfg     Config
}

func openRedsync(cfg Config) (Locker, error) {
	clients := newClients(cfg)
	var pools []driver.Pool
	for _, c := range clients {
		pools = append(pools, goredis.NewPool(c))
	}
	return &quorum{clients: clients, locks: redsync.New(pools...), cfg: cfg}, nil
}

func (s *quorum) Lock(ctx context.Context, key string) (Unlock, error) {
	mutex := s.locks.NewMutex(
		"lock:"+key,
		redsync.WithFailFast(true), // or one slow node would slow all locks
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

// growingDelay doubles from firstDelay to maxDelay, with some jitter. A try costs the server
// three commands here. Without jitter, waiters that came together would try together for ever.
func growingDelay(tries int) time.Duration {
	delay := min(firstDelay<<min(tries, 10), maxDelay)
	return delay/2 + rand.N(delay)
}

func (s *quorum) Once(ctx context.Context, key string, fn func()) error {
	return onceByHand(ctx, s, s.clients[0], key, fn)
}

func (s *quorum) Close() error { return s.clients.Close() }
