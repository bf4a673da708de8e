package natstest

import (
	"net"
	"os"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/drivertest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/store/natsstore"
)

// stays is so long that a busy machine costs no waiter its place in the queue.
const stays = 6 * time.Second

// TestContract runs the suite that every store has to pass. Every store is a process with a network of its
// own.
func TestContract(t *testing.T) {
	t.Parallel()
	h := harness(t)
	h.OtherBackend = harness
	if testing.Short() {
		h.Elsewhere = "proof/dbtest"
		// What package keystate decides, and a crowd that takes a minute of a processor.
		h.Also = regexp.MustCompile(`^(M|I|L|N7|R6|W)|random|transfers never wait`).MatchString
	}
	drivertest.Run(t, h)
}

func harness(t testing.TB) drivertest.Harness {
	opts := server.Options{StoreDir: t.TempDir()}
	srv := start(t, opts)
	addr := srv.Addr().(*net.TCPAddr)
	opts.Port = addr.Port
	var networks sync.Map // driver.Store -> *servertest.Proxy
	network := func(s driver.Store) *servertest.Proxy {
		p, _ := networks.Load(s)
		return p.(*servertest.Proxy)
	}
	return drivertest.Harness{
		TTL: time.Second, Late: 5 * time.Second, OneByOne: true,
		New: func(t testing.TB) driver.Store {
			p := servertest.NewProxy(t, addr.String())
			s := open(t, connect(t, p.Addr()), natsstore.WithWaiterLease(stays))
			networks.Store(s, p)
			return s
		},
		Restart: func(t testing.TB) {
			stop(srv)
			must(t, os.RemoveAll(opts.StoreDir))
			srv = start(t, opts)
		},
		Cut:  func(_ testing.TB, s driver.Store) { network(s).Cut() },
		Heal: func(_ testing.TB, s driver.Store) { network(s).Heal() },
	}
}
