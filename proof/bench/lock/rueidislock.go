package lock

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// tryAgain is how long a waiter that should get the key sleeps at most.
const tryAgain = time.Second

// rueidisLock is github.com/redis/rueidis/rueidislock. It pipelines the requests of concurrent
// callers and renews, both by itself. It learns of released keys through client-side caching.
// It is set up as its README advises for one Redis 7:
//
//   - KeyMajority 1: one key per lock instead of three, as with the others;
//   - NoLoopTracking: no notifications of one's own changes;
//   - TryNextAfter, which bounds a try, is raised from 20 ms: on a busy machine a try takes
//     longer, and a waiter whose try was cut off may never be woken.
//
// In other cases, too, a waiter sometimes sleeps through a release, and then for ever. So a
// wait is cut off after a second, and begun again.
type rueidisLock struct {
	locks  rueidislock.Locker
	client redis.UniversalClient // for the marks of Once
}

func openRueidislock(cfg Config) (Locker, error) {
	option := rueidis.ClientOption{InitAddress: cfg.Addrs, ForceSingleClient: len(cfg.Addrs) == 1}
	if cfg.Sent != nil {
		option.DialCtxFn = func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return cfg.Sent.dial(ctx, "tcp", addr)
		}
	}
	locks, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   option,
		KeyMajority:    1,
		NoLoopTracking: true,
		KeyValidity:    cfg.TTL,
		ExtendInterval: cfg.TTL / 3,
		TryNextAfter:   10 * time.Second,
	})
	if err != nil {
		return nil, err
	}
	return &rueidisLock{locks: locks, client: newClient(cfg)}, nil
}

func (r *rueidisLock) Lock(ctx context.Context, key string) (Unlock, error) {
	for {
		unlock, err := r.lockSoon(ctx, key)
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.Canceled) {
			return unlock, err
		}
	}
}

// lockSoon waits for tryAgain at most. It does not use a deadline, because the library would
// make the deadline the end of the lock.
func (r *rueidisLock) lockSoon(ctx context.Context, key string) (Unlock, error) {
	ctx, giveUp := context.WithCancel(ctx)
	timer := time.AfterFunc(tryAgain, giveUp)
	_, unlock, err := r.locks.WithContext(ctx, key)
	if err != nil {
		return nil, err
	}
	if !timer.Stop() { // the lock ends with its context, which has just ended
		unlock()
		return nil, context.Canceled
	}
	return func(context.Context) error {
		unlock() // waits for the server's answer, but does not return it
		giveUp()
		return nil
	}, nil
}

func (r *rueidisLock) Once(ctx context.Context, key string, fn func()) error {
	return onceByHand(ctx, r, r.client, key, fn)
}

func (r *rueidisLock) Close() error {
	r.locks.Close()
	return r.client.Close()
}
