package natstest

import (
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/storetest"
	"github.com/keyturn/keyturn/store/natsstore"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// A server that was shut down leaves these behind for as long as the process runs.
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server/ats.(*AccessTimeService).run"),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server/ats.init.0.func1"),
	)
}

// start starts a server with JetStream in this process.
func start(t testing.TB, opts server.Options) *server.Server {
	t.Helper()
	opts.Host, opts.JetStream, opts.NoLog, opts.NoSigs = "127.0.0.1", true, true, true
	if opts.Port == 0 {
		opts.Port = server.RANDOM_PORT
	}
	if opts.StoreDir == "" {
		opts.StoreDir = t.TempDir()
	}
	srv, err := server.NewServer(&opts)
	must(t, err)
	srv.Start()
	if !srv.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server did not start")
	}
	t.Cleanup(func() { stop(srv) })
	return srv
}

func stop(srv *server.Server) {
	srv.Shutdown()
	srv.WaitForShutdown()
}

// connect makes a connection that the test closes.
func connect(t testing.TB, addr string, opts ...nats.Option) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect("nats://"+addr, append([]nats.Option{
		nats.MaxReconnects(-1), nats.ReconnectWait(20 * time.Millisecond), nats.ReconnectJitter(0, 0),
		nats.PingInterval(time.Second), nats.Timeout(time.Second), nats.RetryOnFailedConnect(true),
	}, opts...)...)
	must(t, err)
	t.Cleanup(nc.Close)
	return nc
}

// open makes a store that the test closes.
func open(t testing.TB, nc *nats.Conn, opts ...natsstore.Option) *natsstore.Store {
	t.Helper()
	s, err := natsstore.New(nc, opts...)
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func port(srv *server.Server) int { return srv.Addr().(*net.TCPAddr).Port }

var (
	must       = checktest.Must
	check      = checktest.That
	request    = storetest.Request
	take       = storetest.Hold
	eventually = checktest.Eventually
)
