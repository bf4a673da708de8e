package lock

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// retention is how long executions are remembered.
const retention = time.Hour

// newClient makes the go-redis client of keyturn, redislock and redsync. It is the same for all
// of them. A connection carries one command at a time, so callers that share one wait for each
// other. On a machine of this size, more than 64 only cost the server.
func newClient(cfg Config) redis.UniversalClient {
	conns := max(4, min(cfg.Callers, 64))
	return redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs:           cfg.Addrs,
		PoolSize:        conns,
		MinIdleConns:    conns, // connect before the measurement
		DisableIdentity: true,  // saves two commands per connection
		IsClusterMode:   len(cfg.Addrs) > 1,
	})
}

// peer is a library that only locks. Its Once is what users write themselves: under the lock, look
// for a mark, do the work, leave the mark. A first execution takes four round trips, a repeat three.
func peer(client redis.UniversalClient, lock func(ctx context.Context, key string) (Unlock, error)) *Locker {
	once := func(ctx context.Context, key string, fn func()) error {
		unlock, err := lock(ctx, key)
		if err != nil {
			return err
		}
		mark := "done:" + key
		err = client.Get(ctx, mark).Err() // nil: it was done before
		if errors.Is(err, redis.Nil) {
			fn()
			err = client.Set(ctx, mark, "", retention).Err()
		}
		return errors.Join(err, unlock(ctx))
	}
	return &Locker{Lock: lock, Once: once, Close: client.Close}
}

// renewing calls renew three times per TTL until the lock is unlocked. Users of a library without
// a watchdog write this. The unlock waits for a call under way.
func renewing(cfg Config, renew func(context.Context), unlock Unlock) Unlock {
	if !cfg.Renew {
		return unlock
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(cfg.TTL / 3)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				renew(ctx)
			}
		}
	}()
	return func(ctx context.Context) error {
		cancel()
		<-done
		return unlock(ctx)
	}
}
