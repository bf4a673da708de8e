package redisstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/store/redisstore"
)

// impatient makes the client repeat soon what got no answer.
func impatient(o *redis.Options) {
	o.ReadTimeout = 100 * time.Millisecond
	o.MinRetryBackoff, o.MaxRetryBackoff = 5*time.Millisecond, 20*time.Millisecond
}

func once(o *redis.Options) { o.MaxRetries = -1 }

// lossy is a store whose network can lose replies.
func lossy(t testing.TB, server *redistest.Server, opts ...func(*redis.Options)) (*redisstore.Store, *servertest.Proxy) {
	t.Helper()
	network := servertest.NewProxy(t, server.Addr())
	s := open(t, throughProxy(server, network, append([]func(*redis.Options){impatient}, opts...)...))
	// Connects, and has the server learn the scripts: a lost reply is to be lost
	// after the work is done.
	release(t, s, lock(t, s, "warm", "up", time.Minute))
	if err := s.Complete(within(t, time.Second), lock(t, s, "warm", "up", time.Minute), driver.Record{}, time.Second); err != nil {
		t.Fatal(err)
	}
	return s, network
}

// TestUnansweredAcquireIsUndone: the caller has gone when the reply is due.
func TestUnansweredAcquireIsUndone(t *testing.T) {
	t.Parallel()
	for name, opt := range map[string]func(*redis.Options){
		"repeated by the client": func(*redis.Options) {},
		"sent once":              once,
		"context timeouts on":    func(o *redis.Options) { o.ContextTimeoutEnabled = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			s, network := lossy(t, server, opt)
			admin := server.Client()
			before := calls(t, server)
			network.CutReplies()
			ctx, cancel := context.WithTimeout(context.Background(), 150*time.Millisecond)
			defer cancel()
			_, err := s.Acquire(ctx, request("o", "k", time.Minute))
			if !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrHeld) {
				t.Errorf("want ErrUnavailable, got %v", err)
			}
			if errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("an outage looks like the caller's own deadline: %v", err)
			}
			if calls(t, server) == before {
				t.Fatal("no request arrived: this tests nothing")
			}
			time.Sleep(150 * time.Millisecond) // what was sent to undo it at once got no answer either
			network.Heal()
			eventually(t, soon, "the grant that nobody wants is undone", func() bool {
				return admin.Exists(context.Background(), "lock:k").Val() == 0
			})
		})
	}
}

// TestLostReleaseReply: the second attempt finds the lock not ours, because the
// first released it.
func TestLostReleaseReply(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, network := lossy(t, server)
	admin := server.Client()
	g := lock(t, s, "o", "k", time.Minute)
	network.CutReplies()
	done := make(chan error, 1)
	go func() { done <- s.Release(within(t, 5*time.Second), g) }()
	eventually(t, soon, "the lock is released", func() bool {
		return admin.Exists(context.Background(), "lock:k").Val() == 0
	})
	network.Heal()
	if err := <-done; err != nil {
		t.Errorf("the lease was released in time: %v", err)
	}
	// Asked once and answered once, "not yours" is a loss.
	if err := s.Release(within(t, time.Second), g); !errors.Is(err, driver.ErrLeaseLost) {
		t.Errorf("want ErrLeaseLost, got %v", err)
	}
}

// TestReleaseRepeatedAfterTheEnd: the first attempt never arrived, the lease ran out, and
// another holder had the key. The second attempt's "not yours" is no clean release. Through
// the engine, which renews in between, nobody knows the outcome.
func TestReleaseRepeatedAfterTheEnd(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, network := lossy(t, server, func(o *redis.Options) { o.MaxRetries = 50 })
	admin := server.Client()
	gone := func() bool { return admin.Exists(context.Background(), "lock:k").Val() == 0 }
	late := func(release func() error) error {
		t.Helper()
		network.Blackhole()
		before := calls(t, server)
		done := make(chan error, 1)
		go func() { done <- release() }()
		eventually(t, 5*time.Second, "the lease has run out", gone)
		if calls(t, server) != before {
			t.Fatal("a request arrived: this tests nothing")
		}
		other := open(t, server.Client())
		g := lock(t, other, "other", "k", time.Minute)
		network.Heal()
		err := <-done
		if err := other.Release(within(t, 5*time.Second), g); err != nil {
			t.Errorf("the other's lease: %v", err)
		}
		return err
	}
	g := lock(t, s, "o", "k", 300*time.Millisecond)
	if err := late(func() error { return s.Release(within(t, 10*time.Second), g) }); !errors.Is(err, driver.ErrLeaseLost) {
		t.Errorf("want ErrLeaseLost, got %v", err)
	}
	eng := newEngineWith(t, s, 600*time.Millisecond)
	lease := acquire(t, eng, "k")
	held := time.Now()
	eventually(t, 5*time.Second, "it is renewed", func() bool { return time.Since(held) > 700*time.Millisecond })
	if err := late(func() error { return lease.Release(context.Background()) }); !errors.Is(err, core.ErrOutcomeUnknown) {
		t.Errorf("want ErrOutcomeUnknown, got %v", err)
	}
}

// TestLostReleaseReplyNotRepeated: what came of it is not known, and core says
// so. A repeat is safe.
func TestLostReleaseReplyNotRepeated(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, network := lossy(t, server, once)
	eng, err := core.New(s, core.WithReleaseTimeout(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close(within(t, 5*time.Second))
	lease, err := eng.Acquire(within(t, 5*time.Second), "k")
	if err != nil {
		t.Fatal(err)
	}
	network.CutReplies()
	if err := lease.Release(context.Background()); !errors.Is(err, core.ErrOutcomeUnknown) {
		t.Errorf("want ErrOutcomeUnknown, got %v", err)
	}
	network.Heal()
	if err := lease.Release(context.Background()); err != nil {
		t.Errorf("the repeated release: %v", err)
	}
}

// TestLostCompleteReply: the record says whose it is.
func TestLostCompleteReply(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, network := lossy(t, server)
	admin := server.Client()
	g := lock(t, s, "o", "k", time.Minute)
	network.CutReplies()
	done := make(chan error, 1)
	rec := driver.Record{Result: []byte("done")}
	go func() { done <- s.Complete(within(t, 5*time.Second), g, rec, time.Minute) }()
	eventually(t, soon, "it is on record", func() bool {
		return admin.Exists(context.Background(), "{lock:k}:r").Val() == 1
	})
	network.Heal()
	if err := <-done; err != nil {
		t.Errorf("it is on record: %v", err)
	}
}
