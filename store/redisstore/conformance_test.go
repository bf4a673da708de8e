package redisstore_test

import (
	"crypto/rand"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/drivertest"
	"github.com/keyturn/keyturn/core/drivertest/model"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/storetest"
	"github.com/keyturn/keyturn/store/redisstore"
)

// TestContract runs the suite that every store has to pass. Every store is a process with a network of its own.
//
// It runs on a private server, or on the one whose address is in KEYTURN_TEST_REDIS. That one may be
// in use: nothing is flushed, and the keys have a prefix of their own. It can't be restarted, so the
// tests that need that are skipped by name.
func TestContract(t *testing.T) {
	t.Parallel() // with the other tests; its own go one by one
	addr, more := os.Getenv("KEYTURN_TEST_REDIS"), redisstore.WithPrefix("keyturn:"+rand.Text()+":")
	h := drivertest.Harness{TTL: 300 * time.Millisecond, Latitude: model.Latitude{Blurred: true}}
	if addr == "" {
		server := redistest.Start(t)
		addr, more = server.Addr(), redisstore.WithPrefix(redisstore.DefaultPrefix)
		h.Restart = func(t testing.TB) { server.Restart(t) }
		h.Pause = func(testing.TB) { server.Pause() }
		h.Resume = func(testing.TB) { server.Resume() }
	}
	h, _ = storetest.Networked(h, addr, func(t testing.TB, addr string) driver.Store {
		client := redis.NewClient(&redis.Options{Addr: addr})
		t.Cleanup(func() { _ = client.Close() })
		return open(t, client, more)
	})
	drivertest.Run(t, h)
}

// TestContractOfCluster runs it where every script has the keys of one claim
// only, and where no prefix stands in front of the keys.
func TestContractOfCluster(t *testing.T) {
	t.Parallel()
	h := drivertest.Harness{Latitude: model.Latitude{Blurred: true, SeparateClaims: true}}
	client := redis.UniversalClient(nil)
	if testing.Short() {
		client, h.Elsewhere = sharedCluster(t), "TestContract"
		// What a Cluster does otherwise: sets take a script per key, tokens have a counter per key, and a list asks each node.
		h.Also = allBut(`^(S|A3|A13|I5|I6|W)|\bset\b|random`)
		h.OneByOne = true
	} else {
		servers, own := startCluster(t)
		client, h.Pause, h.Resume = own, storetest.Every(servers, (*redistest.Server).Pause), storetest.Every(servers, (*redistest.Server).Resume)
	}
	h.New = func(t testing.TB) driver.Store { return open(t, client, redisstore.WithPrefix("")) }
	drivertest.Run(t, h)
}

// TestContractOfRing runs what several servers do otherwise. No messages arrive there, so all waiters look for themselves,
// in their order only as far as they are in time.
func TestContractOfRing(t *testing.T) {
	servertest.LongParallel(t)
	servers, client := startRing(t)
	drivertest.Run(t, drivertest.Harness{
		New:       func(t testing.TB) driver.Store { return open(t, client, quickLooks) },
		Latitude:  model.Latitude{Blurred: true, SeparateClaims: true},
		Pause:     storetest.Every(servers, (*redistest.Server).Pause),
		Resume:    storetest.Every(servers, (*redistest.Server).Resume),
		Elsewhere: "TestContract",
		Also:      allBut(`^(S|A1 |A3|A13|I|L|N|R1)|\bset\b`),
	})
}

// allBut reports the names that do not match.
func allBut(pattern string) func(check string) bool {
	differs := regexp.MustCompile(pattern)
	return func(check string) bool { return !differs.MatchString(check) }
}
