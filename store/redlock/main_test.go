package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/storetest"
	"github.com/keyturn/keyturn/store/redlock"
)

func TestMain(m *testing.M) {
	redistest.Quiet()
	// go-redis looks once a second whether a server that refused a connection is back.
	goleak.VerifyTestMain(binary.Main(m), goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

var bg = context.Background()

// binary has the servers that tests share.
var binary servertest.Binary

var shared struct {
	mu        sync.Mutex
	servers   []*redistest.Server
	databases int // that are in use
}

// sharing is a fleet of nodes that vote: databases of its own on servers that tests share. A test that breaks a node,
// changes its users, or counts what it does starts servers instead.
func sharing(t testing.TB) *fleet {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	for len(shared.servers) < nodes {
		shared.servers = append(shared.servers, redistest.Start(binary.Lasting(t, "binary.Main")))
	}
	shared.databases++
	f := &fleet{}
	for _, server := range shared.servers {
		f.servers = append(f.servers, server.Database(t, shared.databases))
	}
	f.init(t)
	return f
}

// fleet is five servers, each behind a proxy.
type fleet struct {
	servers []*redistest.Server
}

const nodes = 5

// start starts empty servers, which abstain.
func start(t testing.TB, args ...string) *fleet {
	t.Helper()
	f := &fleet{}
	for range nodes {
		f.servers = append(f.servers, redistest.Start(t, args...))
	}
	return f
}

// started starts servers that vote.
func started(t testing.TB, opts ...redlock.Option) *fleet {
	t.Helper()
	f := start(t)
	f.init(t, opts...)
	return f
}

func (f *fleet) init(t testing.TB, opts ...redlock.Option) {
	t.Helper()
	must(t, f.tryInit(t, opts...))
}

func (f *fleet) tryInit(t testing.TB, opts ...redlock.Option) error {
	t.Helper()
	s := f.open(t, opts...)
	err := s.Init(within(t, 10*time.Second))
	must(t, s.Close())
	return err
}

// renew starts every server anew, empty, and has it vote, which an operator may do only if no lease is in force. A vote
// that was asked for before may come after the start: then the server has been in use.
func (f *fleet) renew(t testing.TB) {
	t.Helper()
	err := redlock.ErrNotNew
	for n := 0; n < 5 && errors.Is(err, redlock.ErrNotNew); n++ {
		for _, server := range f.servers {
			server.Restart(t)
		}
		err = f.tryInit(t)
	}
	must(t, err)
}

// patient is for stores whose nodes answer unless they are broken on purpose: a busy machine needs
// longer than the default.
var patient = redlock.WithNodeTimeout(250 * time.Millisecond)

// open makes a store over the servers that the test closes.
func (f *fleet) open(t testing.TB, opts ...redlock.Option) *redlock.Store {
	t.Helper()
	return over(t, f.clients(func(int, *redis.Options) {}), opts...)
}

// openProxied makes a store with a network of its own.
func (f *fleet) openProxied(t testing.TB) (*redlock.Store, []*servertest.Proxy) {
	t.Helper()
	var proxies []*servertest.Proxy
	for _, server := range f.servers {
		proxies = append(proxies, servertest.NewProxy(t, server.Addr()))
	}
	return over(t, f.clients(func(i int, o *redis.Options) { o.Addr = proxies[i].Addr() })), proxies
}

// clients makes one for each server.
func (f *fleet) clients(with func(i int, o *redis.Options)) (all []*redis.Client) {
	for i, server := range f.servers {
		all = append(all, server.Client(func(o *redis.Options) { with(i, o) }))
	}
	return all
}

// over makes a store that the test closes.
func over(t testing.TB, clients []*redis.Client, opts ...redlock.Option) *redlock.Store {
	t.Helper()
	s, err := redlock.New(clients, append([]redlock.Option{patient}, opts...)...)
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

var (
	must       = checktest.Must
	check      = checktest.That
	require    = checktest.Require
	wantNil    = checktest.WantNil
	wantIs     = checktest.WantIs
	within     = checktest.Within
	release    = storetest.Release
	renew      = storetest.Renew
	eventually = checktest.Eventually
)

// request asks for key; the owner is only what it has to be, unique.
func request(owner, key string, ttl time.Duration) driver.Request {
	return driver.Request{Owner: owner, Claims: []driver.Claim{driver.Exclusive(key)}, TTL: ttl}
}

// lock takes a key that is free.
func lock(t testing.TB, s driver.Store, owner, key string, ttl time.Duration) driver.Grant {
	t.Helper()
	return storetest.Hold(t, s, request(owner, key, ttl))
}

// ask asks for key, and says why it was refused.
func ask(t testing.TB, s driver.Store, owner, key string) error {
	t.Helper()
	return checktest.ErrorOf(s.Acquire(within(t, 10*time.Second), request(owner, key, time.Second)))
}

// forget has nodes lose their votes for key, for d at least: what they were sent before may come until then.
func (f *fleet) forget(t testing.TB, key string, d time.Duration, nodes ...int) {
	t.Helper()
	for _, i := range nodes {
		c := f.servers[i].Client()
		for end := time.Now().Add(d); ; time.Sleep(5 * time.Millisecond) {
			must(t, c.Del(within(t, 5*time.Second), "lock:"+key).Err())
			if time.Now().After(end) {
				break
			}
		}
	}
}

// votes is how many nodes have a vote for key.
func (f *fleet) votes(t testing.TB, key string) (n int64) {
	t.Helper()
	for _, server := range f.servers {
		one, err := server.Client().Exists(within(t, 5*time.Second), "lock:"+key).Result()
		must(t, err)
		n += one
	}
	return n
}

// settled waits until n nodes have the lock on key. A grant comes with a quorum, and the other votes a moment later.
func (f *fleet) settled(t testing.TB, key string, n int64) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d nodes have the lock on %s", n, key), func() bool { return f.votes(t, key) == n })
}
