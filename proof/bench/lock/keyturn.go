package lock

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/redisstore"
	"github.com/keyturn/keyturn/store/redlock"
)

// closeTimeout is longer than any lease takes to be released.
const closeTimeout = 10 * time.Second

// lingers is for how long a process keeps the leases of keys that it asks for again and again.
const lingers = 10 * time.Second

// keyturn is an engine over redisstore, or redlock, with its defaults. It always renews.
type keyturn struct {
	clients clients
	engine  *core.Engine
}

func openKeyturn(cfg Config) (Locker, error) {
	clients := newClients(cfg)
	store, err := openStore(cfg, clients)
	if err != nil {
		return nil, errors.Join(err, clients.Close())
	}
	linger := time.Duration(0)
	if cfg.Sticky {
		linger = lingers
	}
	engine, err := core.New(
		store,
		core.WithLinger(linger),
		core.WithTTL(cfg.TTL),
		core.WithMaxWait(core.Forever),          // the scenario's context bounds it
		core.WithMaxHold(core.Forever),          // the scenario decides how long leases are held
		core.WithMaxWaiters(math.MaxInt32),      // scenarios have ten thousand on a key
		core.WithMaxWaitersTotal(math.MaxInt32), // and on all keys
	)
	if err != nil {
		return nil, errors.Join(err, store.Close(), clients.Close())
	}
	return &keyturn{clients: clients, engine: engine}, nil
}

func openStore(cfg Config, clients clients) (driver.Store, error) {
	if !cfg.Nodes {
		return redisstore.New(clients[0])
	}
	var nodes []*redis.Client
	for _, c := range clients {
		nodes = append(nodes, c.(*redis.Client))
	}
	// The server's data is gone between two measurements, and with it the marks of nodes that may
	// vote. No lease is older.
	return redlock.New(nodes, redlock.WithPersistent())
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

func (k *keyturn) OnceEach(ctx context.Context, keys []string, fn func(fresh int)) error {
	return Batch(ctx, k.engine, keys, fn)
}

// Batch is the OnceEach of an engine.
func Batch(ctx context.Context, engine *core.Engine, keys []string, fn func(fresh int)) error {
	items := make([]core.Item, len(keys))
	for i, key := range keys {
		items[i].Key = key
	}
	err := engine.OnceEach(ctx, items, func(_ context.Context, fresh []int) error {
		fn(len(fresh))
		return nil
	}, core.WithRetention(retention))
	for _, item := range items {
		err = errors.Join(err, item.Err)
	}
	return err
}

func (k *keyturn) Close() error {
	// It waits for leases that are held, and a benchmark must end.
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return errors.Join(k.engine.Close(ctx), k.clients.Close())
}
