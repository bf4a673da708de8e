package scenario

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/keyturn/keyturn/proof/bench/lock"
	"github.com/keyturn/keyturn/proof/bench/stats"
)

// idleWaiters has one client that holds some keys, and another whose many goroutines wait for
// them in vain. It measures what waiting costs the server.
func idleWaiters(ctx context.Context, env *Env, system string) (_ []stats.Sample, err error) {
	holder, err := env.open(ctx, system, bulkCallers)
	if err != nil {
		return nil, err
	}
	defer closing(&err, holder)
	unlocks, err := lockMany(ctx, holder, env.Size.Keys)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlockMany(ctx, unlocks)) }()

	cfg := env.config(bulkCallers)
	cfg.Idle, cfg.Sent = true, new(lock.Counter)
	waiter, err := lock.Open(system, cfg)
	if err != nil {
		return nil, err
	}
	defer closing(&err, waiter)
	waiting, sendHome := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer sendHome()
	for i := range env.Size.Waiters {
		key := fmt.Sprintf("session:%d", i%env.Size.Keys)
		all.Go(func() {
			// This does not happen in this scenario: the keys stay held until all waiters have
			// gone.
			if unlock, err := waiter.Lock(waiting, key); err == nil {
				_ = unlock(ctx)
			}
		})
	}
	if err := pause(ctx, env.Size.IdleSettle); err != nil {
		return nil, err
	}
	began, before := time.Now(), cfg.Sent.Commands()
	if err := pause(ctx, env.Size.IdleSpan); err != nil {
		return nil, err
	}
	rate := float64(cfg.Sent.Commands()-before) / time.Since(began).Seconds()
	return []stats.Sample{
		{Unit: "commands/s", Value: rate},
		{Unit: "commands/s per key", Value: rate / float64(env.Size.Keys)},
	}, nil
}
