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
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/store/redisstore"
)

// slack is what a call may take beyond its context on a busy machine.
const slack = 300 * time.Millisecond

// TestRedisAbsent: nobody listens at the address.
func TestRedisAbsent(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(&redis.Options{Addr: l.Addr().String()})
	t.Cleanup(func() { _ = client.Close() })
	_ = l.Close()
	unreachable(t, client)
}

// TestRedisMute: the address takes connections and says nothing.
func TestRedisMute(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // the kernel takes the connections
	client := redis.NewClient(&redis.Options{Addr: l.Addr().String(), ReadTimeout: 500 * time.Millisecond})
	t.Cleanup(func() { _ = client.Close() })
	unreachable(t, client)
}

func unreachable(t *testing.T, client *redis.Client) {
	began := time.Now()
	s, err := redisstore.New(client, silent)
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 50*time.Millisecond {
		t.Errorf("New took %v", took)
	}
	for _, wait := range []bool{false, true} {
		const bound = 200 * time.Millisecond
		began := time.Now()
		req := request("o", "k", time.Minute)
		req.Wait = wait
		_, err := s.Acquire(within(t, bound), req)
		if took := time.Since(began); took > bound+slack {
			t.Errorf("Acquire took %v, its bound is %v", took, bound)
		}
		if !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrHeld) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("want ErrUnavailable alone, got %v", err)
		}
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// TestHalfOpenConnection: every call keeps its bound, and no goroutine stays;
// TestMain looks for those.
func TestHalfOpenConnection(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	network := servertest.NewProxy(t, server.Addr())
	// The client's own timeout is longer than any bound here.
	client := throughProxy(server, network, func(o *redis.Options) { o.ReadTimeout = 300 * time.Millisecond })
	s, err := redisstore.New(client, silent)
	if err != nil {
		t.Fatal(err)
	}
	g := lock(t, s, "o", "k", time.Minute)
	network.Blackhole()
	const bound = 100 * time.Millisecond
	bounded := func(call string, f func(context.Context) error) {
		t.Helper()
		began := time.Now()
		err := f(within(t, bound))
		if took := time.Since(began); took > bound+slack {
			t.Errorf("%s took %v, its bound is %v", call, took, bound)
		}
		if !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrLeaseLost) {
			t.Errorf("%s: want ErrUnavailable, got %v", call, err)
		}
	}
	bounded("Acquire", func(ctx context.Context) error {
		_, err := s.Acquire(ctx, request("p", "free", time.Minute))
		return err
	})
	bounded("Renew", func(ctx context.Context) error { return s.Renew(ctx, []driver.Grant{g, g})[1] })
	bounded("Complete", func(ctx context.Context) error { return s.Complete(ctx, g, driver.Record{}, time.Minute) })
	bounded("Release", func(ctx context.Context) error { return s.Release(ctx, g) })
	began := time.Now()
	_ = s.Close() // says whether the last had to be left behind
	if took := time.Since(began); took > 6*time.Second {
		t.Errorf("Close took %v", took)
	}
}

// TestResetStorm cuts all connections again and again: errors are typed, and
// nobody gets in beside a holder.
func TestResetStorm(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	network := servertest.NewProxy(t, server.Addr())
	var inside, done atomic.Int64
	var all sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		eng, err := core.New(open(t, throughProxy(server, network)), core.WithTTL(2*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = eng.Close(within(t, 10*time.Second)) })
		for range 4 {
			all.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					err := eng.Do(within(t, time.Second), "k", func(context.Context) error {
						if inside.Add(1) != 1 {
							t.Error("two are in")
						}
						inside.Add(-1)
						done.Add(1)
						return nil
					})
					known := err == nil || errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrHeld) ||
						errors.Is(err, context.DeadlineExceeded)
					if !known {
						t.Errorf("untyped: %v", err)
					}
				}
			})
		}
	}
	for range 40 {
		time.Sleep(20 * time.Millisecond)
		network.Cut()
		network.Heal()
	}
	close(stop)
	all.Wait()
	if done.Load() == 0 {
		t.Error("nobody got anything done")
	}
}

// TestPausedServer is SIGSTOP for longer than the TTL: the holder is told at its
// deadline, although no answer says so.
func TestPausedServer(t *testing.T) {
	t.Parallel()
	const ttl = 400 * time.Millisecond
	server := redistest.Start(t)
	eng, err := core.New(open(t, server.Client()), core.WithTTL(ttl))
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close(within(t, 5*time.Second))
	lease, err := eng.Acquire(context.Background(), "k")
	if err != nil {
		t.Fatal(err)
	}
	server.Pause()
	defer server.Resume()
	paused := time.Now()
	select {
	case <-lease.Context().Done():
	case <-time.After(ttl + slack):
		t.Fatal("the holder was not told")
	}
	if took := time.Since(paused); took > ttl+slack/2 {
		t.Errorf("the holder was told after %v", took)
	}
	if err := context.Cause(lease.Context()); !errors.Is(err, driver.ErrLeaseLost) {
		t.Errorf("want ErrLeaseLost, got %v", err)
	}
	if err := lease.Release(context.Background()); !errors.Is(err, driver.ErrLeaseLost) {
		t.Errorf("release: want ErrLeaseLost, got %v", err)
	}
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
			var d net.Dialer
			return d.DialContext(ctx, network, addr)
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
	if took := time.Since(began); took > 1500*time.Millisecond {
		t.Errorf("took %v", took)
	}
	if !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("error %v", err)
	}
}
