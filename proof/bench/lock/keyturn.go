package lock

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/redisstore"
)

// closeTimeout is longer than any lease takes to be released.
const closeTimeout = 10 * time.Second

// openKeyturn opens an engine over redisstore with its defaults.
func openKeyturn(cfg Config) (*Locker, error) {
	client := newClient(cfg)
	store, err := redisstore.New(client)
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return engineOver(store, cfg.TTL, client.Close)
}

// engineOver makes an engine that renews, without limits for waiting and holding. closeClient
// ends what the store uses; without an engine, too.
func engineOver(store driver.Store, ttl time.Duration, closeClient func() error) (*Locker, error) {
	engine, err := core.New(
		store,
		core.WithTTL(ttl),
		core.WithMaxWait(core.Forever),          // the scenario's context bounds it
		core.WithMaxHold(core.Forever),          // the scenario decides how long leases are held
		core.WithMaxWaiters(math.MaxInt32),      // scenarios bound the waiters on a key
		core.WithMaxWaitersTotal(math.MaxInt32), // and on all keys
	)
	if err != nil {
		return nil, errors.Join(err, store.Close(), closeClient())
	}
	return &Locker{
		Lock: func(ctx context.Context, key string) (Unlock, error) {
			lease, err := engine.Acquire(ctx, key)
			if err != nil {
				return nil, err
			}
			return lease.Release, nil
		},
		Once: func(ctx context.Context, key string, fn func()) error {
			_, err := engine.Once(ctx, key, func(context.Context) ([]byte, error) {
				fn()
				return nil, nil
			}, core.WithRetention(retention))
			return err
		},
		Close: func() error {
			// It waits for leases that are held, and a benchmark must end.
			ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
			defer cancel()
			return errors.Join(engine.Close(ctx), closeClient())
		},
	}, nil
}
