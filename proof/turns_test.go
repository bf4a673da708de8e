package main_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/store/redisstore"
)

// TestTurnsWithForeignClients: keyturn and clients that know nothing of its queue compete for one key, and
// nobody pauses between two turns. Neither side gets less than a quarter of the turns.
func TestTurnsWithForeignClients(t *testing.T) {
	const ms = time.Millisecond
	all := []contest{
		{ours: 1, processes: 1, theirs: 1, take: byLibrary, retry: 3 * ms, hold: 2 * ms, turns: 600},
		{ours: 8, processes: 8, theirs: 1, take: byHand, retry: 10 * ms, hold: 10 * ms, turns: 200},
		{ours: 1, processes: 1, theirs: 8, take: byHand, retry: 10 * ms, hold: 5 * ms, turns: 400},
		{ours: 8, processes: 1, theirs: 8, take: byLibrary, retry: 3 * ms, hold: 2 * ms, turns: 600},
	}
	if !testing.Short() {
		all = append(all,
			contest{ours: 8, processes: 4, theirs: 1, take: byLibrary, retry: 50 * ms, hold: 20 * ms, turns: 300},
			contest{ours: 3, processes: 2, theirs: 3, take: byHand, retry: 10 * ms, hold: 50 * ms, turns: 200},
			contest{ours: 1, processes: 1, theirs: 1, take: byLibrary, retry: 50 * ms, hold: 100 * ms, turns: 200},
		)
	}
	for _, c := range all {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			ours, theirs, took := c.run(t)
			t.Logf("%d and %d turns, %d %% of %v idle", ours, theirs, 100-100*int64(c.hold)*(ours+theirs)/int64(took), took.Round(ms))
			if 4*min(ours, theirs) < ours+theirs {
				t.Errorf("%d turns of ours, %d of theirs", ours, theirs)
			}
		})
	}
}

// contest is who competes for the key.
type contest struct {
	ours, processes int // callers of keyturn, and engines that they share
	theirs          int // foreign clients
	take            foreign
	retry, hold     time.Duration
	turns           int
}

func (c contest) String() string {
	return fmt.Sprintf("%d of ours in %d processes, %d others that retry every %v, each has it for %v", c.ours, c.processes, c.theirs, c.retry, c.hold)
}

// foreign takes the lock "lock:k" as a client does that does not know keyturn.
type foreign func(ctx context.Context, client *redis.Client, retry time.Duration) (unlock func(), err error)

func byLibrary(ctx context.Context, client *redis.Client, retry time.Duration) (func(), error) {
	l, err := redislock.Obtain(ctx, client, "lock:k", time.Minute, &redislock.Options{RetryStrategy: redislock.LinearBackoff(retry)})
	if err != nil {
		return nil, err
	}
	return func() { _ = l.Release(context.Background()) }, nil
}

// byHand writes the same value each time.
func byHand(ctx context.Context, client *redis.Client, retry time.Duration) (func(), error) {
	for {
		if ok, err := client.SetNX(ctx, "lock:k", "taken", time.Minute).Result(); err != nil || ok {
			return func() { client.Del(context.Background(), "lock:k") }, err
		}
		select {
		case <-time.After(retry):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// run returns how many turns each side has had, and how long that took.
func (c contest) run(t *testing.T) (ours, theirs int64, took time.Duration) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	server := redistest.Start(t)
	var turns [2]atomic.Int64
	var all sync.WaitGroup
	work := func(side int, take func() (unlock func(), err error)) {
		all.Go(func() {
			for ctx.Err() == nil {
				unlock, err := take()
				if err != nil {
					if ctx.Err() == nil {
						t.Error(err)
					}
					return
				}
				time.Sleep(c.hold)
				turns[side].Add(1)
				if turns[0].Load()+turns[1].Load() >= int64(c.turns) {
					cancel()
				}
				unlock()
			}
		})
	}
	// Foreign clients that find the lock taken leave no trace: one of ours must have seen that there are any.
	admin := server.Client()
	first, err := byHand(ctx, admin, c.retry)
	must(t, err)
	engines := make([]*core.Engine, c.processes)
	for i := range engines {
		engines[i] = engine(t, server.Client())
	}
	for i := range c.ours {
		eng := engines[i%c.processes]
		work(0, func() (func(), error) {
			l, err := eng.Acquire(ctx, "k")
			return func() { _ = l.Release(context.Background()) }, err
		})
	}
	for !admin.HExists(ctx, "{lock:k}:w", ":foreign").Val() && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	for range c.theirs {
		client := server.Client()
		work(1, func() (func(), error) { return c.take(ctx, client, c.retry) })
	}
	began := time.Now()
	first()
	all.Wait()
	return turns[0].Load(), turns[1].Load(), time.Since(began)
}

func engine(t *testing.T, client *redis.Client) *core.Engine {
	store, err := redisstore.New(client)
	must(t, err)
	eng, err := core.New(store)
	must(t, err)
	t.Cleanup(func() {
		_ = eng.Close(context.Background())
		_ = store.Close()
	})
	return eng
}
