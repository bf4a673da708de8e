package lock

import (
	"context"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

// The delay between two tries for a key that is held. A library that polls has to choose
// between the waiter's delay and the server's load. These values favour the delay, as a service
// with short sections would.
const (
	firstDelay = time.Millisecond
	maxDelay   = 32 * time.Millisecond
)

// bsm is github.com/bsm/redislock: one client, scripts by hash, tries with growing delays. It
// does not renew by itself. If a scenario needs that, each lock gets a goroutine that calls
// Refresh, as its documentation shows.
type bsm struct {
	client redis.UniversalClient
	locks  *redislock.Client
	cfg    Config
}

func openRedislock(cfg Config) (Locker, error) {
	client := newClient(cfg)
	return &bsm{client: client, locks: redislock.New(client), cfg: cfg}, nil
}

func (b *bsm) Lock(ctx context.Context, key string) (Unlock, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		// Without a deadline it gives up after the TTL.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	lock, err := b.locks.Obtain(ctx, "lock:"+key, b.cfg.TTL, &redislock.Options{
		// A strategy counts the tries of one call, so each call needs its own.
		RetryStrategy: redislock.ExponentialBackoff(firstDelay, maxDelay),
	})
	if err != nil {
		return nil, err
	}
	if !b.cfg.Renew {
		return lock.Release, nil
	}
	stop := renewing(b.cfg.TTL, func(ctx context.Context) { _ = lock.Refresh(ctx, b.cfg.TTL, nil) })
	return func(ctx context.Context) error {
		stop()
		return lock.Release(ctx)
	}, nil
}

func (b *bsm) Once(ctx context.Context, key string, fn func()) error {
	return onceByHand(ctx, b, b.client, key, fn)
}

func (b *bsm) Close() error { return b.client.Close() }
