package migrating

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	pools "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

type setNX struct {
	client *redis.Client
	ttl    time.Duration
}

func openSetNX(addrs []string, ttl time.Duration) (library, error) {
	return &setNX{redis.NewClient(&redis.Options{Addr: addrs[0]}), ttl}, nil
}

func (s *setNX) close() { _ = s.client.Close() }

func (s *setNX) before(ctx context.Context, order string, charge work) error {
	return withSetNX(ctx, s.client, order, charge)
}

// renewMine is how those who renew a SET NX by hand do it.
var renewMine = redis.NewScript(`if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("PEXPIRE", KEYS[1], ARGV[2]) else return 0 end`)

func (s *setNX) try(ctx context.Context, order string) (*lock, error) {
	keys := []string{"lock:order:" + order}
	taken, err := s.client.SetNX(ctx, keys[0], "mine", s.ttl).Result()
	if err == nil && !taken {
		err = errTaken
	}
	return &lock{
		renew: func(ctx context.Context) error {
			return changed(renewMine.Run(ctx, s.client, keys, "mine", s.ttl.Milliseconds()).Int())
		},
		release: func(ctx context.Context) error { return changed(deleteMine.Run(ctx, s.client, keys, "mine").Int()) },
	}, err
}

func changed(n int, err error) error {
	if err == nil && n == 0 {
		err = errors.New("the lock is lost")
	}
	return err
}

type redisLock struct {
	client *redis.Client
	locks  *redislock.Client
	ttl    time.Duration
}

func openRedislock(addrs []string, ttl time.Duration) (library, error) {
	client := redis.NewClient(&redis.Options{Addr: addrs[0]})
	return &redisLock{client, redislock.New(client), ttl}, nil
}

func (r *redisLock) close() { _ = r.client.Close() }

func (r *redisLock) before(ctx context.Context, order string, charge work) error {
	return withRedislock(ctx, r.locks, order, charge)
}

func (r *redisLock) try(ctx context.Context, order string) (*lock, error) {
	l, err := r.locks.Obtain(ctx, "order:"+order, r.ttl, nil)
	if errors.Is(err, redislock.ErrNotObtained) {
		err = errTaken
	}
	return &lock{
		renew:   func(ctx context.Context) error { return l.Refresh(ctx, r.ttl, nil) },
		release: l.Release,
	}, err
}

type redSync struct {
	clients []*redis.Client
	locks   *redsync.Redsync
	ttl     time.Duration
}

func openRedsync(addrs []string, ttl time.Duration) (library, error) {
	r := &redSync{clients: clientsOf(addrs), ttl: ttl}
	var all []pools.Pool
	for _, c := range r.clients {
		all = append(all, goredis.NewPool(c))
	}
	r.locks = redsync.New(all...)
	return r, nil
}

func (r *redSync) close() { closeAll(r.clients) }

func (r *redSync) before(ctx context.Context, order string, charge work) error {
	return withRedsync(ctx, r.locks, order, charge)
}

func (r *redSync) try(ctx context.Context, order string) (*lock, error) {
	m := r.locks.NewMutex("order:"+order, redsync.WithExpiry(r.ttl))
	err := m.TryLockContext(ctx)
	if taken := new(redsync.ErrTaken); errors.As(err, &taken) || errors.Is(err, redsync.ErrFailed) {
		err = errTaken
	}
	return &lock{
		renew:   func(ctx context.Context) error { return done(m.ExtendContext(ctx)) },
		release: func(ctx context.Context) error { return done(m.UnlockContext(ctx)) },
	}, err
}

func done(ok bool, err error) error {
	if err == nil && !ok {
		err = errors.New("the lock is lost")
	}
	return err
}

type rueidisLock struct{ locks rueidislock.Locker }

func openRueidislock(majority int32) func(addrs []string, ttl time.Duration) (library, error) {
	return func(addrs []string, ttl time.Duration) (library, error) {
		locks, err := rueidislock.NewLocker(rueidislock.LockerOption{
			ClientOption:   rueidis.ClientOption{InitAddress: addrs, ForceSingleClient: true},
			KeyMajority:    majority,
			KeyValidity:    ttl,
			ExtendInterval: ttl / 4,
			TryNextAfter:   5 * time.Second, // a busy machine needs more than the 20 ms of the default
		})
		return &rueidisLock{locks}, err
	}
}

func (r *rueidisLock) close() { r.locks.Close() }

// before calls the function again when a wait has taken a second: a waiter of rueidislock sometimes
// sleeps through a release, and then for ever.
func (r *rueidisLock) before(ctx context.Context, order string, charge work) error {
	for {
		ctx, giveUp := context.WithCancel(ctx)
		timer := time.AfterFunc(time.Second, giveUp)
		began := false
		err := withRueidislock(ctx, r.locks, order, func(ctx context.Context) error {
			if !timer.Stop() {
				return context.Canceled
			}
			began = true
			return charge(ctx)
		})
		giveUp()
		if began || !errors.Is(err, context.Canceled) {
			return err
		}
	}
}

// try needs no renewal: the library does it.
func (r *rueidisLock) try(ctx context.Context, order string) (*lock, error) {
	holding, unlock, err := r.locks.TryWithContext(ctx, "order:"+order)
	if errors.Is(err, rueidislock.ErrNotLocked) {
		err = errTaken
	}
	return &lock{
		renew: func(context.Context) error { return holding.Err() },
		release: func(context.Context) error {
			unlock()
			return nil
		},
	}, err
}
