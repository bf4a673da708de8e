package embedtest

import (
	"errors"
	"flag"
	"net/url"
	"os"
	"strconv"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/drivertest"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/storetest"
	_ "github.com/keyturn/keyturn/store/etcdstore"
	"github.com/keyturn/keyturn/store/storeurl"
)

var must = checktest.Must

func TestMain(m *testing.M) {
	// Nearly all that these tests do is to wait for leases to end.
	flag.Parse()
	_ = flag.Set("test.parallel", "10")
	os.Exit(m.Run())
}

// TestContract runs the suite that every store has to pass. Every store is a process with a network
// of its own.
func TestContract(t *testing.T) {
	servertest.Long(t)
	h := harness(t)
	h.OtherBackend = harness
	drivertest.Run(t, h)
}

func harness(t testing.TB) drivertest.Harness {
	server := start(t)
	h, _ := storetest.Networked(drivertest.Harness{
		// etcd keeps whole seconds, and ends leases up to a second late.
		TTL: 2 * time.Second, Late: 4 * time.Second, Restart: server.forget, Elsewhere: "store/etcdstore",
	}, server.addr, open)
	return h
}

// open makes a store that the test closes. url is what stands behind the scheme.
func open(t testing.TB, url string) driver.Store {
	t.Helper()
	s, err := storeurl.Open(t.Context(), "etcd://"+url)
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// server is an etcd in this process.
type server struct {
	addr     string
	settings []func(*embed.Config)
	etcd     *embed.Etcd
}

// start runs an etcd until the test and its subtests end, with further settings.
func start(t testing.TB, settings ...func(*embed.Config)) *server {
	t.Helper()
	port, err := servertest.FreePort()
	must(t, err)
	s := &server{addr: "127.0.0.1:" + strconv.Itoa(port), settings: settings}
	s.run(t)
	t.Cleanup(func() { s.etcd.Close() })
	return s
}

// forget restarts the server without its data.
func (s *server) forget(t testing.TB) {
	t.Helper()
	s.etcd.Close()
	s.run(t)
}

func (s *server) run(t testing.TB) {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "embedtest-")
	if err != nil {
		dir = t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	peer, err := servertest.FreePort()
	must(t, err)
	cfg := embed.NewConfig()
	cfg.Dir, cfg.TickMs, cfg.ElectionMs, cfg.UnsafeNoFsync = dir, 10, 100, true
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	at := func(addr string) []url.URL { return []url.URL{{Scheme: "http", Host: addr}} }
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = at(s.addr), at(s.addr)
	cfg.ListenPeerUrls = at("127.0.0.1:" + strconv.Itoa(peer))
	cfg.AdvertisePeerUrls = cfg.ListenPeerUrls
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	for _, set := range s.settings {
		set(cfg)
	}
	if s.etcd, err = embed.StartEtcd(cfg); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.etcd.Server.ReadyNotify():
	case err := <-s.etcd.Err():
		t.Fatal(err)
	case <-time.After(time.Minute):
		t.Fatal(errors.New("etcd does not start"))
	}
}
