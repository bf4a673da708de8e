package redisstore_test

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
)

// Leases that linger, on real servers: what a memstore cannot show is how their process learns that they are wanted.

// keeps is an engine that keeps its leases for as long as a test lasts.
func keeps(t testing.TB, client redis.UniversalClient) *core.Engine {
	t.Helper()
	return engine(t, open(t, client), core.WithLinger(time.Minute))
}

// use takes key for a moment, until the lease lingers: the first ones of a process do not, because
// it has to subscribe first.
func use(t testing.TB, eng *core.Engine, key string) {
	t.Helper()
	eventually(t, 5*time.Second, "the lease lingers", func() bool {
		must(t, pass(eng, key))
		return lingers(t, eng, key)
	})
}

func lingers(t testing.TB, eng *core.Engine, key string) bool {
	t.Helper()
	info, err := eng.Inspect(within(t, 5*time.Second), key)
	must(t, err)
	return len(info.Holders) == 1 && info.Holders[0].Lingers
}

// A dead subscription is found out also if nobody of this process waits.
func TestNothingLingersBehindADeadSubscription(t *testing.T) {
	servertest.LongParallel(t)
	server, network := proxied(t, redistest.Start(t))
	here := keeps(t, &subscribing{UniversalClient: server.Client(), messages: throughProxy(server, network)})
	use(t, here, "k")
	network.Blackhole()
	eventually(t, 10*time.Second, "the lease goes back", func() bool { return !lingers(t, here, "k") })
	network.Heal()
	use(t, here, "k")
}

// A user without channels keeps nothing, and works as usual.
func TestNothingLingersWithoutChannels(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	here := keeps(t, as(t, server, aclKeys, aclCommands, aclInspect, "+info"))
	for range 3 {
		must(t, pass(here, "k"))
		check(t, !lingers(t, here, "k"), "a lease lingers, and nobody can say that it is wanted")
	}
}

// A Ring has no messages, so the option is refused at the start.
func TestNothingLingersOnARing(t *testing.T) {
	t.Parallel()
	_, ring := startRing(t)
	s := open(t, ring)
	_, err := core.New(s, core.WithLinger(time.Minute))
	wantIs(t, "New", err, errors.ErrUnsupported)
}
