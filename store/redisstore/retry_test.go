package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
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
	// after the work is done. A busy machine may be slower than an impatient client.
	tries := 0
	eventually(t, soon, "the server knows the scripts", func() bool {
		tries++ // an owner asks once: what was given up is undone by its name
		ctx := within(t, time.Second)
		g, err := s.Acquire(ctx, request(fmt.Sprint("warm", tries), "up", time.Minute))
		if err != nil || s.Release(ctx, g) != nil {
			return false
		}
		g, err = s.Acquire(ctx, request(fmt.Sprint("recorded", tries), "up", time.Minute))
		return err == nil && s.Complete(ctx, g, driver.Record{}, time.Second) == nil
	})
	return s, network
}

// TestUnansweredAcquireIsUndone: the caller has gone when the reply is due.
func TestUnansweredAcquireIsUndone(t *testing.T) {
	t.Parallel()
	checktest.Each(t, map[string]func(*redis.Options){
		"repeated by the client": func(*redis.Options) {},
		"sent once":              once,
		"context timeouts on":    func(o *redis.Options) { o.ContextTimeoutEnabled = true },
	}, func(t *testing.T, opt func(*redis.Options)) {
		server := redistest.Start(t)
		s, network := lossy(t, server, opt)
		admin := server.Client()
		before := calls(t, server)
		network.CutReplies()
		err := checktest.ErrorOf(s.Acquire(within(t, 150*time.Millisecond), request("o", "k", time.Minute)))
		outage(t, "Acquire", err, driver.ErrUnavailable)
		check(t, !errors.Is(err, context.DeadlineExceeded), "an outage looks like the caller's own deadline: %v", err)
		check(t, calls(t, server) > before, "no request arrived: this tests nothing")
		time.Sleep(150 * time.Millisecond) // what was sent to undo it at once got no answer either
		network.Heal()
		eventually(t, soon, "the grant that nobody wants is undone", func() bool { return admin.Exists(bg, "lock:k").Val() == 0 })
	})
}

// TestLostReplies: a request was carried out and its answer was lost, so the client sends it again. What the second one
// finds is the first one's work: the lease is ours, although SET NX would say that it is held (go-redis repeats that,
// too); the lease was released in time; the record says whose it is.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	server := database(t)
	admin := server.Client()
	during := func(what, key string, exists int64, request func(*redisstore.Store) error) {
		t.Helper()
		s, network := lossy(t, server) // with a connection on which the request can leave
		network.CutReplies()
		answer := checktest.Async(func() error { return request(s) })
		eventually(t, soon, what+" is carried out", func() bool { return admin.Exists(bg, key).Val() == exists })
		network.Heal()
		err := <-answer
		check(t, err == nil, "%s: %v", what, err)
	}
	var g driver.Grant
	during("an acquisition", "lock:k", 1, func(s *redisstore.Store) (err error) {
		g, err = s.Acquire(within(t, 5*time.Second), request("o", "k", time.Minute))
		return err
	})
	v := admin.Get(bg, "lock:k").Val()
	check(t, strings.HasPrefix(v, fmt.Sprint("o:", g.Token, ":")), "the lease is %+v, the lock %q", g, v)
	during("a release", "lock:k", 0, func(s *redisstore.Store) error { return s.Release(within(t, 5*time.Second), g) })
	// Asked once and answered once, "not yours" is a loss.
	s := open(t, server.Client())
	wantIs(t, "Release", s.Release(within(t, time.Second), g), driver.ErrLeaseLost)
	must(t, checktest.ErrorOf(s.ForceRelease(within(t, time.Second), "free", "why"))) // the server knows the script
	lock(t, s, "o2", "k", time.Minute)
	during("a forced release", "lock:k", 0, func(s *redisstore.Store) error { // "nobody had it" may be wrong
		had, err := s.ForceRelease(within(t, 5*time.Second), "k", "why")
		check(t, len(had) == 1 || errors.Is(err, driver.ErrOutcomeUnknown), "ForceRelease: %v, %v", had, err)
		return nil
	})
	g = lock(t, s, "once", "k", time.Minute)
	during("a completion", "{lock:k}:r", 1, func(s *redisstore.Store) error {
		return s.Complete(within(t, 5*time.Second), g, driver.Record{Result: []byte("done")}, time.Minute)
	})
}

// TestScriptFlushReachesNoCaller is about redsync v4.14.0, which answered every
// call with NOSCRIPT once the server did not know its scripts.
func TestScriptFlushReachesNoCaller(t *testing.T) {
	server, s := onServer(t)
	flushing, stop := context.WithCancel(bg)
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	admin := server.Client()
	all.Go(func() {
		for flushing.Err() == nil {
			admin.ScriptFlush(bg)
			time.Sleep(2 * time.Millisecond)
		}
	})
	var workers sync.WaitGroup
	for i := range 4 {
		workers.Go(func() {
			for round := range 15 {
				// Two keys, so that there are waits.
				req := request(fmt.Sprintf("o%d-%d", i, round), fmt.Sprint("k", i%2), time.Minute)
				req.Wait = true
				g, err := s.Acquire(within(t, 10*time.Second), req)
				if err != nil {
					t.Errorf("Acquire: %v", err)
					return
				}
				for _, err := range s.Renew(within(t, 5*time.Second), []driver.Grant{g, g, g}) {
					wantIs(t, "Renew", err, nil)
				}
				wantIs(t, "Release", s.Release(within(t, 5*time.Second), g), nil)
			}
		})
	}
	workers.Wait()
	n := server.Commands(t)["script|flush"]
	check(t, n >= 10, "the scripts were flushed only %d times", n)
}
