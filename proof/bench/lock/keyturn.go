package lock

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/store/redisstore"
)

// closeTimeout is longer than any lease takes to be released.
const closeTimeout = 10 * time.Second

// keyturn is an engine over redisstore, with its defaults. It always renews.
type keyturn struct {
	client redis.UniversalClient
	engine *core.Engine
}

func openKeyturn(cfg Config) (Locker, error) {
	client := newClient(cfg)
	store, err := redisstore.New(client)
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	engine, err := core.New(
		store,
		core.WithTTL(cfg.TTL),
		core.WithMaxWait(core.Forever),          // the scenario's context bounds it
		core.WithMaxHold(core.Forever),          // the scenario decides how long leases are held
		core.WithMaxWaiters(math.MaxInt32),      // scenarios have ten thousand on a key
		core.WithMaxWaitersTotal(math.MaxInt32), // and on all keys
	)
	if err != nil {
		return nil, errors.Join(err, store.Close(), client.Close())
	}
	return &keyturn{client: client, engine: engine}, nil
}

func (k *keyturn) Lock(ctx context.Context, key string) (Unlock, error) {
	lease, err := k.engine.Acquire(ctx, key)
	if err != nil {
		return nil, err
	}
	return lease.Release, nil
}

func (k *keyturn) Once(ctx context.Context, key string, fn func()) error {
	_, err := k.engine.Once(ctx, key, func(context.Context) ([]byte, error) {
		fn()
		return nil, nil
	}, core.WithRetention(retention))
	return err
}

func (k *keyturn) Close() error {
	// It waits for leases that are held, and a benchmark must end.
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return errors.Join(k.engine.Close(ctx), k.client.Close())
}
