package lock

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// tryAgain is how long a waiter that should get the key sleeps at most.
const tryAgain = time.Second

// openRueidislock opens github.com/redis/rueidis/rueidislock. It pipelines the requests of
// concurrent callers and renews, both by itself. It learns of released keys through client-side
// caching. It is set up as its README advises for one Redis 7:
//
//   - KeyMajority 1: one key per lock instead of three, as with the others;
//   - NoLoopTracking: no notifications of one's own changes;
//   - TryNextAfter, which bounds a try, is raised from 20 ms: on a busy machine a try takes
//     longer, and a waiter whose try was cut off may never be woken.
//
// In other cases, too, a waiter sometimes sleeps through a release, and then for ever. So a
// wait is cut off after a second, and begun again.
func openRueidislock(cfg Config) (*Locker, error) {
	locks, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   rueidis.ClientOption{InitAddress: cfg.Addrs, ForceSingleClient: len(cfg.Addrs) == 1},
		KeyMajority:    1,
		NoLoopTracking: true,
		KeyValidity:    cfg.TTL,
		ExtendInterval: cfg.TTL / 3,
		TryNextAfter:   10 * time.Second,
	})
	if err != nil {
		return nil, err
	}
	l := peer(newClient(cfg), func(ctx context.Context, key string) (Unlock, error) {
		for {
			unlock, err := lockSoon(ctx, locks, key)
			if err == nil || ctx.Err() != nil || !errors.Is(err, context.Canceled) {
				return unlock, err
			}
		}
	})
	closeClient := l.Close // that of the marks of Once
	l.Close = func() error {
		locks.Close()
		return closeClient()
	}
	return l, nil
}

// lockSoon waits for tryAgain at most. It does not use a deadline, because the library would
// make the deadline the end of the lock.
func lockSoon(ctx context.Context, locks rueidislock.Locker, key string) (Unlock, error) {
	ctx, giveUp := context.WithCancel(ctx)
	timer := time.AfterFunc(tryAgain, giveUp)
	_, unlock, err := locks.WithContext(ctx, key)
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
