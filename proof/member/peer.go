package member

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/proof/history"
	"github.com/keyturn/keyturn/proof/work"
)

// The systems that keyturn is compared with. The last one is no library, but what is often written
// by hand: SET NX, and a DEL that compares nothing.
const (
	Redsync   = "redsync"
	Redislock = "redislock"
	PlainDEL  = "DEL"
)

// lock takes a key, or returns an error at once. until is when the lease ends for its holder.
type lock func(ctx context.Context, key string, ttl time.Duration) (release func(context.Context) error, until time.Time, err error)

// systems makes each system's lock.
var systems = map[string]func(redis.UniversalClient) lock{
	Redsync: func(client redis.UniversalClient) lock {
		rs := redsync.New(goredis.NewPool(client))
		return func(ctx context.Context, key string, ttl time.Duration) (func(context.Context) error, time.Time, error) {
			m := rs.NewMutex(key, redsync.WithExpiry(ttl), redsync.WithTries(1))
			if err := m.LockContext(ctx); err != nil {
				return nil, time.Time{}, err
			}
			return func(ctx context.Context) error {
				_, err := m.UnlockContext(ctx)
				return err
			}, m.Until(), nil
		}
	},
	Redislock: func(client redis.UniversalClient) lock {
		locks := redislock.New(client)
		return func(ctx context.Context, key string, ttl time.Duration) (func(context.Context) error, time.Time, error) {
			asked := time.Now()
			l, err := locks.Obtain(ctx, key, ttl, nil)
			if err != nil {
				return nil, time.Time{}, err
			}
			return l.Release, asked.Add(ttl), nil
		}
	},
	PlainDEL: func(client redis.UniversalClient) lock {
		return func(ctx context.Context, key string, ttl time.Duration) (func(context.Context) error, time.Time, error) {
			asked := time.Now()
			ok, err := client.SetNX(ctx, key, "1", ttl).Result()
			if err == nil && !ok {
				err = driver.ErrHeld
			}
			return func(ctx context.Context) error { return client.Del(ctx, key).Err() }, asked.Add(ttl), err
		}
	},
}

// peer does with another system what a Worker does with the plain keys: it takes one exclusively,
// and changes a register under it. These locks have no tokens.
type peer struct {
	Process
	recorder *history.Recorder
	resource work.Resource
}

func (p *peer) work(ctx context.Context) error {
	system, ok := systems[p.System]
	if !ok {
		return fmt.Errorf("no system %q", p.System)
	}
	take := system(p.client())
	var all sync.WaitGroup
	for range work.Goroutines {
		all.Go(func() {
			for ctx.Err() == nil {
				p.once(take)
				time.Sleep(rand.N(2*p.Rest + time.Millisecond))
			}
		})
	}
	all.Wait()
	return nil
}

// once is one acquisition. What was begun is finished when the process is to end.
func (p *peer) once(take lock) {
	ctx, cancel := context.WithTimeout(context.Background(), p.TTL)
	defer cancel()
	key := fmt.Sprint("p", rand.N(work.PlainKeys))
	nr := p.recorder.Ask([]driver.Claim{driver.Exclusive(key)})
	release, until, err := take(ctx, key, p.TTL)
	if err != nil {
		p.recorder.Now(history.Event{Nr: nr, What: history.Denied})
		return
	}
	p.recorder.Now(history.Event{Nr: nr, What: history.Given, Until: p.recorder.Mono(until), TTL: p.TTL})
	sleep := rand.N(4 * time.Millisecond)
	if rand.N(int(20*p.TTL/work.TTL)) == 0 {
		sleep = p.TTL / 2
	}
	time.Sleep(sleep)
	work.Add(p.recorder, p.resource, work.Bare(key), 0, func() bool {
		if time.Until(until) < 2*p.Think {
			return false
		}
		time.Sleep(rand.N(p.Think + 1))
		return true
	})
	p.recorder.Now(history.Event{Nr: nr, What: history.Returning})
	what := history.Returned
	if err := release(context.Background()); err != nil {
		what = history.Gone
	}
	p.recorder.Now(history.Event{Nr: nr, What: what})
}
