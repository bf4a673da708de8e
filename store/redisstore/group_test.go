package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/store/redisstore"
)

// many is how many callers there are at once: enough for several groups.
const many = 300

// crowd has many callers do something at the same time, while the server is stopped for as long as it takes them to
// come. It checks that they did share their round trips.
func crowd(t *testing.T, server *redistest.Server, do func(i int)) {
	t.Helper()
	before := calls(t, server)
	server.Pause()
	var all sync.WaitGroup
	for i := range many {
		all.Go(func() { do(i) })
	}
	time.Sleep(100 * time.Millisecond) // nothing can be seen of a stopped server; more only makes larger groups
	server.Resume()
	all.Wait()
	n := calls(t, server) - before
	check(t, n <= many/2, "%d callers took %d script calls: this tests no groups", many, n)
}

// Every third key holds something that is not a lock, so a third of each group fails.
func TestOneRequestsFailureIsNotItsNeighbours(t *testing.T) {
	server, s := onServer(t)
	admin := server.Client()
	for i := 0; i < many; i += 3 {
		must(t, admin.RPush(within(t, time.Second), fmt.Sprint("lock:k", i), "x").Err())
	}
	grants := make([]driver.Grant, many)
	crowd(t, server, func(i int) {
		g, err := s.Acquire(within(t, 10*time.Second), request(fmt.Sprint("o", i), fmt.Sprint("k", i), time.Minute))
		bad := i%3 == 0
		check(t, bad == errors.Is(err, redisstore.ErrWrongType) && bad == (err != nil), "request %d: %v", i, err)
		grants[i] = g
	})
	crowd(t, server, func(i int) {
		if i%3 != 0 {
			release(t, s, grants[i])
		}
	})
}

// A caller who hangs up takes nobody along, and leaves nothing behind.
func TestOneCallersCancelIsNotItsNeighbours(t *testing.T) {
	server, s := onServer(t)
	lock(t, s, "warm", "up", time.Minute)
	ctx, hangUp := context.WithCancel(within(t, 10*time.Second))
	defer time.AfterFunc(50*time.Millisecond, hangUp).Stop()
	granted := make([]bool, many)
	crowd(t, server, func(i int) {
		req := request(fmt.Sprint("o", i), fmt.Sprint("k", i), time.Minute)
		mine := within(t, 10*time.Second)
		if i%2 == 0 {
			mine = ctx
		}
		_, err := s.Acquire(mine, req)
		granted[i] = err == nil // also for who was quicker than the signals
		check(t, err == nil || i%2 == 0 && errors.Is(err, driver.ErrUnavailable), "request %d: %v", i, err)
	})
	check(t, slices.Contains(granted, false), "nobody hung up in time: this tests nothing")
	admin := server.Client()
	eventually(t, 5*time.Second, "only those who stayed have their locks", func() bool {
		for i := range many {
			if held := admin.Exists(bg, fmt.Sprint("lock:k", i)).Val() == 1; held != granted[i] {
				return false
			}
		}
		return true
	})
}

// The client sends a group again whose reply was lost. Each of its requests has
// been carried out by then, and is answered as if it had been the first time.
func TestGroupsWithLostReplies(t *testing.T) {
	servertest.LongParallel(t)
	server, network := proxied(t, redistest.Start(t))
	// Losses show in connections that break when the network heals, not in
	// timeouts, which a busy machine reaches by itself.
	client := throughProxy(server, network, func(o *redis.Options) { o.ReadTimeout, o.PoolSize = 20*time.Second, 64 })
	s := open(t, client)
	admin := server.Client()
	// connect makes as many connections as are used, by round trips and by callers who send
	// for themselves, twice: a new one would get no answer to its greeting, and send nothing.
	connect := func() {
		const conns = 64
		ctx := within(t, 15*time.Second)
		var all sync.WaitGroup
		for range conns {
			all.Go(func() { _ = client.BLPop(ctx, 15*time.Second, "connected").Err() })
		}
		eventually(t, 15*time.Second, "every connection is made", func() bool {
			return strings.Contains(admin.Info(ctx, "clients").Val(), fmt.Sprint("blocked_clients:", conns, "\r"))
		})
		admin.RPush(ctx, "connected", make([]any, conns)...)
		all.Wait()
	}
	connect()
	// The server learns the scripts: one that it does not know it would not run.
	release(t, s, lock(t, s, "warm", "warm", time.Minute))
	crowd(t, server, func(i int) { release(t, s, lock(t, s, fmt.Sprint("warm", i), fmt.Sprint("warm", i), time.Minute)) })
	locks := func() int {
		keys, _ := admin.Keys(bg, "lock:k*").Result()
		return len(keys)
	}
	// during has a crowd do something whose replies are lost until the server has
	// done all of it, which finished reports.
	during := func(finished func() bool, do func(i int)) {
		t.Helper()
		connect()
		network.CutReplies()
		var atHeal int64
		var healer sync.WaitGroup
		healer.Go(func() {
			defer network.Heal()
			for deadline := time.Now().Add(15 * time.Second); !finished(); time.Sleep(5 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Errorf("the server has not done all that it was asked for: %d locks", locks())
					return
				}
			}
			atHeal = calls(t, server)
		})
		crowd(t, server, do)
		healer.Wait()
		n := calls(t, server)
		check(t, n > atHeal, "%d script calls before the network healed, %d after: no reply was lost", atHeal, n)
	}
	grants := make([]driver.Grant, many)
	during(func() bool { return locks() == many }, func(i int) {
		var err error
		grants[i], err = s.Acquire(within(t, 30*time.Second), request(fmt.Sprint("o", i), fmt.Sprint("k", i), time.Minute))
		check(t, err == nil, "acquire %d: %v", i, err)
	})
	for i, g := range grants {
		got := admin.Get(within(t, 10*time.Second), fmt.Sprint("lock:k", i)).Val()
		check(t, strings.HasPrefix(got, fmt.Sprint(g.Owner, ":", g.Token)), "granted was %+v, stored is %s", g, got)
	}
	during(func() bool { return locks() == 0 }, func(i int) { release(t, s, grants[i]) })
}

// A server without memory can't grant, but it can still say who holds a key: that must not look like an outage.
func TestHeldKeysInAGroupWithoutMemory(t *testing.T) {
	server, s := onServer(t)
	g := lock(t, s, "holder", "k", time.Minute)
	set(t, server, "maxmemory", "1mb") // the server alone takes more
	crowd(t, server, func(i int) {
		key, want := "k", driver.ErrHeld
		if i%2 == 0 {
			key, want = fmt.Sprint("free", i), redisstore.ErrOutOfMemory
		}
		_, err := s.Acquire(within(t, 10*time.Second), request(fmt.Sprint("o", i), key, time.Minute))
		check(t, errors.Is(err, want), "request %d: want %v, got %v", i, want, err)
	})
	release(t, s, g)
}
