package redisstore_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/storetest"
	"github.com/keyturn/keyturn/store/redisstore"
)

func TestMain(m *testing.M) {
	redistest.Quiet()
	actAsProcess()
	goleak.VerifyTestMain(binary.Main(m))
}

// binary has the servers that tests share.
var binary servertest.Binary

var shared struct {
	mu        sync.Mutex
	server    *redistest.Server
	nodes     []*redistest.Server
	databases int // that are in use
}

// database is a database of its own on a server that tests share. A test that breaks its server, changes its settings or
// users, or counts what it does starts one instead.
func database(t testing.TB) *redistest.Server {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.server == nil {
		shared.server = redistest.Start(binary.Lasting(t, "binary.Main"), "--databases", "1000")
	}
	shared.databases++
	return shared.server.Database(t, shared.databases)
}

// sharedCluster is a client of a Cluster that tests share: the names of their keys keep them apart.
func sharedCluster(t testing.TB) redis.UniversalClient {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.nodes == nil {
		shared.nodes = redistest.StartCluster(binary.Lasting(t, "binary.Main"), 3)
	}
	return clusterOf(t, shared.nodes)
}

// clusterOf makes a client of a Cluster.
func clusterOf(t testing.TB, nodes []*redistest.Server, opts ...func(*redis.ClusterOptions)) *redis.ClusterClient {
	t.Helper()
	o := &redis.ClusterOptions{}
	for _, node := range nodes {
		o.Addrs = append(o.Addrs, node.Addr())
	}
	for _, opt := range opts {
		opt(o)
	}
	client := redis.NewClusterClient(o)
	t.Cleanup(func() { _ = client.Close() })
	eventually(t, 5*time.Second, "the Cluster is up", func() bool { return client.Ping(bg).Err() == nil })
	return client
}

// startCluster runs a Cluster of three masters.
func startCluster(t testing.TB) ([]*redistest.Server, *redis.ClusterClient) {
	t.Helper()
	nodes := redistest.StartCluster(t, 3)
	return nodes, clusterOf(t, nodes)
}

var bg = context.Background()

// silent is for stores whose server is broken on purpose.
var silent = redisstore.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))

// open makes a store over client that the test closes.
func open(t testing.TB, client redis.UniversalClient, opts ...redisstore.Option) *redisstore.Store {
	t.Helper()
	s, err := redisstore.New(client, append([]redisstore.Option{silent}, opts...)...)
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// storeOn opens a store on server.
func storeOn(t testing.TB, server *redistest.Server, opts ...redisstore.Option) (*redistest.Server, *redisstore.Store) {
	t.Helper()
	return server, open(t, server.Client(), opts...)
}

// onServer has the test run beside others, with a server of its own and a store on it.
func onServer(t *testing.T, opts ...redisstore.Option) (*redistest.Server, *redisstore.Store) {
	t.Helper()
	t.Parallel()
	return storeOn(t, redistest.Start(t), opts...)
}

// onDatabase is onServer on a server that tests share.
func onDatabase(t *testing.T, opts ...redisstore.Option) (*redistest.Server, *redisstore.Store) {
	t.Helper()
	t.Parallel()
	return storeOn(t, database(t), opts...)
}

// longTTL is that of leases that must not run out while a test looks on.
const longTTL = 5 * time.Minute

// engine makes an engine over s, as a process of its own would. The test closes it; what is held then is revoked.
func engine(t testing.TB, s driver.Store, opts ...core.EngineOption) *core.Engine {
	t.Helper()
	eng, err := core.New(s, append([]core.EngineOption{core.WithTTL(longTTL), core.WithLogger(slog.New(slog.DiscardHandler))}, opts...)...)
	must(t, err)
	t.Cleanup(func() { _ = eng.Close(within(t, time.Second)) })
	return eng
}

func acquire(t testing.TB, eng *core.Engine, key string, opts ...core.CallOption) *core.Lease {
	t.Helper()
	l, err := eng.Acquire(t.Context(), key, append([]core.CallOption{core.WithMaxWait(10 * time.Second)}, opts...)...)
	must(t, err)
	return l
}

// pass takes a key and gives it back.
func pass(eng *core.Engine, key string) error {
	return eng.Do(bg, key, func(context.Context) error { return nil })
}

// proxied has a network lead to a server.
func proxied(t testing.TB, server *redistest.Server) (*redistest.Server, *servertest.Proxy) {
	t.Helper()
	return server, servertest.NewProxy(t, server.Addr())
}

// throughProxy makes a client of server that p can cut off.
func throughProxy(server *redistest.Server, p *servertest.Proxy, opts ...func(*redis.Options)) *redis.Client {
	return server.Client(append(opts, func(o *redis.Options) { o.Addr = p.Addr() })...)
}

var (
	must    = checktest.Must
	check   = checktest.That
	wantNil = checktest.WantNil
	wantIs  = checktest.WantIs
	within  = checktest.Within
	require = checktest.Require
	release = storetest.Release
	renew   = storetest.Renew
)

func wantEqual[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	check(t, got == want, "%s: %v, want %v", what, got, want)
}

// eventually waits for a condition that must come true.
func eventually(t testing.TB, d time.Duration, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(d); !cond(); time.Sleep(time.Millisecond) {
		require(t, time.Now().Before(deadline), "not within %v: %s", d, what)
	}
}

// arrives returns what must come.
func arrives[T any](t testing.TB, c <-chan T) (what T) {
	t.Helper()
	select {
	case what = <-c:
	case <-time.After(30 * time.Second):
		t.Fatal("not within 30 s")
	}
	return what
}

// request asks for key; the owner is only what it has to be, unique.
func request(owner, key string, ttl time.Duration) driver.Request {
	return driver.Request{Owner: owner, Claims: []driver.Claim{driver.Exclusive(key)}, TTL: ttl}
}

// claiming asks for claims.
func claiming(owner string, claims ...driver.Claim) driver.Request {
	return driver.Request{Owner: owner, Claims: claims, TTL: time.Minute}
}

// lock takes a key that is free.
func lock(t testing.TB, s driver.Store, owner, key string, ttl time.Duration) driver.Grant {
	t.Helper()
	return storetest.Hold(t, s, request(owner, key, ttl))
}

// lease takes what is free.
func lease(t testing.TB, s driver.Store, owner string, claims ...driver.Claim) driver.Grant {
	t.Helper()
	return storetest.Hold(t, s, claiming(owner, claims...))
}

// held checks that claims are refused, and by whom.
func held(t testing.TB, s driver.Store, claims ...driver.Claim) (held *driver.HeldError) {
	t.Helper()
	g, err := s.Acquire(within(t, 5*time.Second), claiming("refused", claims...))
	require(t, errors.As(err, &held), "Acquire of %v: want a HeldError, got %+v, %v", claims, g, err)
	return held
}
