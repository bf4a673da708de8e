package redisstore_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
)

// A server that cannot grant a lock, or refuses one client, may go on renewing the leases of others. A rule that runs
// unlocked in an outage ran beside its holder: in 19 of 20 calls on a server without memory, in each on one with too few
// replicas, and if its own client had no permission, or a wrong password.
func TestNothingRunsUnlockedOnAServerThatRefuses(t *testing.T) {
	servertest.LongParallel(t)
	for name, refuse := range map[string]func(testing.TB, *redistest.Server, *redis.Options){
		"out of memory":    func(t testing.TB, s *redistest.Server, _ *redis.Options) { exhaust(t, s) },
		"too few replicas": func(t testing.TB, s *redistest.Server, _ *redis.Options) { set(t, s, "min-replicas-to-write", "1") },
		"no permission": func(t testing.TB, s *redistest.Server, o *redis.Options) {
			s.SetUser(t, "on >pw ~lock:* +get")
			o.Username, o.Password = "keyturn", "pw"
		},
		"wrong password": func(_ testing.TB, _ *redistest.Server, o *redis.Options) { o.Username, o.Password = "nobody", "guess" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			holder := acquire(t, engine(t, open(t, server.Client()), core.WithTTL(time.Second)), "k")
			client := server.Client(func(o *redis.Options) { refuse(t, server, o) })
			asking := engine(t, open(t, client), core.WithRunUnlocked())
			for _, opts := range [][]core.CallOption{
				{core.WithFailFast()},
				{core.WithMaxWait(3 * time.Second)}, // longer than the circuit takes to open
				{core.WithFailFast()},
			} {
				err := asking.Do(within(t, 20*time.Second), "k", func(context.Context) error {
					t.Error("it ran unlocked")
					return nil
				}, opts...)
				check(t, (errors.Is(err, core.ErrUnavailable) || errors.Is(err, core.ErrHeld)) && !errors.Is(err, core.ErrCircuitOpen), "Do: %v", err)
			}
			check(t, holder.Err() == nil || name == "too few replicas", "the holder's lease: %v", holder.Err())
		})
	}
}

// The lock of a holder is deleted and another process has the key by the time that
// the holder is done. What it had was handed on within its process, without a word
// to the server: its heir began after the other one, and had the smaller token.
func TestNoHandOffOfWhatTheServerLost(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client()
	const ttl = 30 * time.Second
	one, other := engine(t, open(t, server.Client()), core.WithTTL(ttl)), engine(t, open(t, server.Client()), core.WithTTL(ttl))
	ctx := within(t, 60*time.Second)
	for round := range 8 {
		first := acquire(t, one, "k")
		var heir *core.Lease
		var failed error
		var waits sync.WaitGroup
		waits.Go(func() { heir, failed = one.Acquire(ctx, "k") })
		time.Sleep(time.Millisecond) // it is in line, on most machines
		if round%2 == 0 {
			must(t, client.Del(ctx, "lock:k").Err())
		} else {
			must(t, client.FlushAll(ctx).Err())
		}
		between, err := other.TryAcquire(ctx, "k")
		tooLate := errors.Is(err, driver.ErrHeld) // on a slow machine the heir is in the server's line by now
		if !tooLate {
			must(t, err)
			time.Sleep(20 * time.Millisecond) // the hold
			wantIs(t, "the release of what was lost", first.Release(bg), driver.ErrLeaseLost)
			time.Sleep(2 * time.Millisecond)
			must(t, between.Release(bg))
		}
		waits.Wait()
		must(t, failed)
		if tooLate {
			_, _ = heir.Release(bg), first.Release(bg)
			continue
		}
		check(t, heir.Token() > between.Token(), "round %d: token %d after %d", round, heir.Token(), between.Token())
		must(t, heir.Release(bg))
	}
}
