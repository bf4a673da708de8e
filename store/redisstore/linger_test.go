package redisstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
)

// Leases that linger, on real servers: what a memstore cannot show is how their process learns that
// they are wanted.

// sooner is less than a waiter's pause between two looks, so a wait that ends within it was ended
// by a message.
const sooner = 1500 * time.Millisecond

// keeps is an engine that keeps its leases for as long as a test lasts.
func keeps(t testing.TB, client redis.UniversalClient) *core.Engine {
	t.Helper()
	return newEngine(t, open(t, client), core.WithLinger(time.Minute))
}

// use takes key for a moment, until the lease lingers: the first ones of a process do not, because
// it has to subscribe first.
func use(t testing.TB, eng *core.Engine, key string) {
	t.Helper()
	eventually(t, 5*time.Second, "the lease lingers", func() bool {
		if err := eng.Do(context.Background(), key, func(context.Context) error { return nil }); err != nil {
			t.Fatal(err)
		}
		return lingers(t, eng, key)
	})
}

func lingers(t testing.TB, eng *core.Engine, key string) bool {
	t.Helper()
	info, err := eng.Inspect(within(t, 5*time.Second), key)
	if err != nil {
		t.Fatal(err)
	}
	return len(info.Holders) == 1 && info.Holders[0].Lingers
}

func TestLingerGivesWay(t *testing.T) {
	t.Parallel()
	server := database(t)
	for name, client := range map[string]redis.UniversalClient{"server": server.Client(), "cluster": sharedCluster(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			here, there := keeps(t, client), newEngine(t, open(t, client))
			for _, opts := range [][]core.CallOption{nil, {core.WithShared()}, {core.WithPermits(2)}} {
				use(t, here, "k")
				began := time.Now()
				if err := there.Do(within(t, 20*time.Second), "k", func(context.Context) error { return nil }, opts...); err != nil {
					t.Fatal(err)
				}
				if waited := time.Since(began); waited > sooner {
					t.Errorf("waited %v", waited)
				}
			}
			use(t, here, "k")
			if _, err := there.TryAcquire(within(t, 5*time.Second), "k"); !errors.Is(err, core.ErrHeld) {
				t.Errorf("a fail-fast request: %v", err)
			}
			eventually(t, 5*time.Second, "the next try succeeds", func() bool {
				l, err := there.TryAcquire(within(t, 5*time.Second), "k")
				return err == nil && l.Release(context.Background()) == nil
			})
			use(t, here, "k")
			if _, err := there.ForceRelease(within(t, 5*time.Second), "k", "a test"); err != nil {
				t.Fatal(err)
			}
			eventually(t, 5*time.Second, "the process is told of the forced release", func() bool {
				l, err := here.Acquire(within(t, 5*time.Second), "k")
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = l.Release(context.Background()) }()
				return lingers(t, here, "k") // otherwise it has a lease that the store does not know
			})
		})
	}
}

// When the subscription is lost, nothing lingers, although nobody has asked.
func TestNothingLingersWithoutMessages(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	here := keeps(t, server.Client())
	use(t, here, "k")
	if err := server.Client().Do(context.Background(), "client", "kill", "type", "pubsub").Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, 5*time.Second, "the lease goes back", func() bool { return !lingers(t, here, "k") })
	use(t, here, "k") // with the new subscription
}

// A dead subscription is found out also if nobody of this process waits.
func TestNothingLingersBehindADeadSubscription(t *testing.T) {
	long(t)
	t.Parallel()
	server := redistest.Start(t)
	network := servertest.NewProxy(t, server.Addr())
	here := keeps(t, &subscribing{UniversalClient: server.Client(), messages: throughProxy(server, network)})
	use(t, here, "k")
	network.Blackhole()
	eventually(t, 10*time.Second, "the lease goes back", func() bool { return !lingers(t, here, "k") })
	network.Heal()
	use(t, here, "k")
}

// Nobody pays for leases that linger unless they do: no lock names an inbox, and nobody publishes.
func TestWithoutLingerNothingIsPublished(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	ctx, client := context.Background(), server.Client()
	a, b := newEngine(t, open(t, client)), newEngine(t, open(t, client))
	l, err := a.Acquire(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	if err := client.ConfigResetStat(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	const refusals = 10
	for range refusals {
		if _, err := b.TryAcquire(ctx, "k"); !errors.Is(err, core.ErrHeld) {
			t.Fatal(err)
		}
	}
	if value := client.Get(ctx, "lock:k").Val(); strings.Contains(value, "inbox") {
		t.Errorf("the lock names an inbox: %q", value)
	}
	if n := server.Commands(t)["publish"]; n >= refusals { // each process sends itself one message at its start
		t.Errorf("%d refusals published %d messages", refusals, n)
	}
	if err := l.Release(ctx); err != nil {
		t.Error(err)
	}
}

// A user without channels keeps nothing, and works as usual.
func TestNothingLingersWithoutChannels(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	here := keeps(t, as(t, server, aclKeys, aclCommands, aclInspect, "+info"))
	for range 3 {
		if err := here.Do(within(t, 5*time.Second), "k", func(context.Context) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if lingers(t, here, "k") {
			t.Error("a lease lingers, and nobody can say that it is wanted")
		}
	}
}

// A Ring has no messages, so the option is refused at the start.
func TestNothingLingersOnARing(t *testing.T) {
	t.Parallel()
	_, ring := startRing(t)
	s := open(t, ring)
	if _, err := core.New(s, core.WithLinger(time.Minute)); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("%v", err)
	}
}
