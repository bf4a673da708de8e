package redisstore_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/storetest"
	"github.com/keyturn/keyturn/store/redisstore"
	"github.com/keyturn/keyturn/store/storeurl"
)

// slack is what a call may take beyond its context on a busy machine.
const slack = 300 * time.Millisecond

// TestHalfOpenConnection: every call keeps its bound, and no goroutine stays; TestMain looks for those.
func TestHalfOpenConnection(t *testing.T) {
	servertest.LongParallel(t)
	server, network := proxied(t, redistest.Start(t))
	// The client's own timeout is longer than any bound here.
	client := throughProxy(server, network, func(o *redis.Options) { o.ReadTimeout = 300 * time.Millisecond })
	s, err := redisstore.New(client, silent)
	must(t, err)
	g := lock(t, s, "o", "k", time.Minute)
	network.Blackhole()
	const bound = 100 * time.Millisecond
	bounded := func(call string, f func(context.Context) error) {
		t.Helper()
		began := time.Now()
		err := f(within(t, bound))
		took := time.Since(began)
		check(t, took <= bound+slack, "%s took %v, its bound is %v", call, took, bound)
		outage(t, call, err, driver.ErrUnavailable)
	}
	bounded("Acquire", func(ctx context.Context) error {
		return checktest.ErrorOf(s.Acquire(ctx, request("p", "free", time.Minute)))
	})
	bounded("Renew", func(ctx context.Context) error { return s.Renew(ctx, []driver.Grant{g, g})[1] })
	bounded("Complete", func(ctx context.Context) error { return s.Complete(ctx, g, driver.Record{}, time.Minute) })
	bounded("Release", func(ctx context.Context) error { return s.Release(ctx, g) })
	began := time.Now()
	_ = s.Close() // says whether the last had to be left behind
	check(t, time.Since(began) < 6*time.Second, "Close took %v", time.Since(began))
}

// TestResetStorm cuts all connections again and again: errors are typed, and nobody gets in beside a holder.
func TestResetStorm(t *testing.T) {
	servertest.LongParallel(t)
	server, network := proxied(t, redistest.Start(t))
	var inside, done atomic.Int64
	var all sync.WaitGroup
	var stop atomic.Bool
	for range 2 {
		eng := engine(t, open(t, throughProxy(server, network)), core.WithTTL(2*time.Second))
		for range 4 {
			all.Go(func() {
				for !stop.Load() {
					err := eng.Do(within(t, time.Second), "k", func(context.Context) error {
						check(t, inside.Add(1) == 1, "two are in")
						inside.Add(-1)
						done.Add(1)
						return nil
					})
					known := err == nil || errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrHeld) ||
						errors.Is(err, context.DeadlineExceeded)
					check(t, known, "untyped: %v", err)
				}
			})
		}
	}
	for range 40 {
		time.Sleep(20 * time.Millisecond)
		network.Cut()
		network.Heal()
	}
	stop.Store(true)
	all.Wait()
	check(t, done.Load() != 0, "nobody got anything done")
}

// TestNoConnectionToBeHad: a caller does not wait for a connection that can't be
// made, as to a machine that is gone, for longer than its context allows.
func TestNoConnectionToBeHad(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var gone atomic.Bool
	back := make(chan struct{})
	s := open(t, server.Client(func(o *redis.Options) {
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if gone.Load() {
				select { // nobody answers, nobody refuses
				case <-ctx.Done():
					return nil, ctx.Err()
				case <-back:
				}
			}
			return new(net.Dialer).DialContext(ctx, network, addr)
		}
	}))
	release(t, s, lock(t, s, "before", "k", time.Minute)) // the server is known to answer
	gone.Store(true)
	server.Pause()
	began := time.Now()
	_, err := s.Acquire(within(t, 200*time.Millisecond), request("o", "k", time.Minute))
	server.Resume()
	gone.Store(false)
	close(back)
	check(t, time.Since(began) <= 1500*time.Millisecond, "took %v", time.Since(began))
	wantIs(t, "Acquire", err, driver.ErrUnavailable)
}

// A release that somebody waits for leaves in a pipeline. If that gets no connection, its commands know no error.
func TestNoConnectionForAPipeline(t *testing.T) {
	t.Parallel()
	server, network := proxied(t, database(t))
	s := open(t, throughProxy(server, network))
	g := lock(t, s, "o", "k", time.Minute)
	g.Contended = true
	network.Cut()
	wantIs(t, "Release", s.Release(within(t, 5*time.Second), g), driver.ErrUnavailable)
}

// TestAwayAtStart: New asked its server, and failed without an answer or waited for it without a bound.
func TestAwayAtStart(t *testing.T) {
	t.Parallel()
	storetest.AwayAtStart(t, database(t).Addr(), func(addr string) (driver.Store, error) {
		return storeurl.Open(t.Context(), "redis://"+addr+"?prefix="+addr+":")
	})
}

// A caller that sends its own request makes the connection, too. go-redis' dial with TLS does not end with a
// context: beside a server that accepted connections and was silent then, callers came back after 5 s.
func TestSilentServerWithTLS(t *testing.T) {
	t.Parallel()
	server, withTLS := startTLS(t)
	var proxy *servertest.Proxy
	s := open(t, server.Client(withTLS, func(o *redis.Options) {
		proxy = servertest.NewProxy(t, o.Addr)
		o.Addr, o.DialTimeout = proxy.Addr(), 20*time.Second
	}))
	release(t, s, lock(t, s, "first", "k", time.Minute)) // a server that answers soon
	proxy.Cut()
	proxy.Blackhole() // accepts connections, and no more
	defer proxy.Cut() // so that dials end
	began := time.Now()
	wantIs(t, "a silent server", checktest.ErrorOf(s.Acquire(within(t, 100*time.Millisecond), request("second", "k", time.Minute))), driver.ErrUnavailable)
	check(t, time.Since(began) <= 10*time.Second, "a caller with 100 ms came back after %v", time.Since(began))
}

// Each answer took 60 ms, which is longer than the short timeout of a request that its caller sends
// itself. The request failed with it, go-redis closed the connection, and the store sent the
// request again on a new one. So each request took 300 ms, and 20 requests took 38 connections.
func TestAServerFarAwayKeepsItsConnections(t *testing.T) {
	t.Parallel()
	const pairs = 8
	server, p := proxied(t, database(t))
	client := throughProxy(server, p)
	eng := engine(t, open(t, client))
	p.Delay(40 * time.Millisecond) // each way
	for range pairs {
		must(t, pass(eng, "k"))
	}
	made := client.PoolStats().Misses
	check(t, made <= pairs, "%d requests took %d connections", 2*pairs, made)
}
