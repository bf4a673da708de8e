package lock

import (
	"context"
	"time"

	"github.com/bsm/redislock"
)

// The delay between two tries for a key that is held. A library that polls has to choose
// between the waiter's delay and the server's load. These values favour the delay, as a service
// with short sections would.
const (
	firstDelay = time.Millisecond
	maxDelay   = 32 * time.Millisecond
)

// openRedislock opens github.com/bsm/redislock: one client, scripts by hash, tries with growing
// delays until the deadline of the context, which is that of the measurement. It does not renew by itself. If a scenario needs that, each lock gets a goroutine that
// calls Refresh, as its documentation shows.
func openRedislock(cfg Config) (*Locker, error) {
	client := newClient(cfg)
	locks := redislock.New(client)
	return peer(client, func(ctx context.Context, key string) (Unlock, error) {
		lock, err := locks.Obtain(ctx, "lock:"+key, cfg.TTL, &redislock.Options{
			// A strategy counts the tries of one call, so each call needs its own.
			RetryStrategy: redislock.ExponentialBackoff(firstDelay, maxDelay),
		})
		if err != nil {
			return nil, err
		}
		return renewing(cfg, func(ctx context.Context) { _ = lock.Refresh(ctx, cfg.TTL, nil) }, lock.Release), nil
	}), nil
}
