package etcdstore_test

import (
	"sync"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/drivertest"
	"github.com/keyturn/keyturn/internal/etcdtest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/store/etcdstore"
	"github.com/keyturn/keyturn/store/etcdstore/internal/clienttest"
)

// TestContract runs the suite that every store has to pass, on the oldest etcd that is supported and
// with the oldest client. Every store is a process with a network of its own. In the short run, its checks share
// a server, which nobody restarts: a silent one is behind a network that loses everything.
func TestContract(t *testing.T) {
	own := func(t testing.TB) drivertest.Harness { return harness(etcdtest.Start(t)) }
	if testing.Short() {
		server := etcdtest.Start(t)
		own = func(testing.TB) drivertest.Harness {
			h := harness(server)
			h.Restart, h.OneByOne, h.Elsewhere = nil, true, "proof/dbtest"
			return h
		}
	}
	h := own(t)
	h.OtherBackend = own
	drivertest.Run(t, h)
}

// networked is a store with its network.
type networked struct {
	*etcdstore.Store
	*servertest.Proxy
}

func harness(server *etcdtest.Server) drivertest.Harness {
	var networks sync.Map // *servertest.Proxy -> nothing
	h := drivertest.Harness{
		// etcd keeps whole seconds, and ends leases up to a second late.
		TTL: 2 * time.Second, Late: 4 * time.Second,
		New: func(t testing.TB) driver.Store {
			p := servertest.NewProxy(t, server.Addr())
			networks.Store(p, nil)
			return &networked{open(t, clienttest.New(t, p.Addr()), etcdstore.WithPrefix(etcdstore.DefaultPrefix)), p}
		},
		Restart: server.Forget,
		Pause:   func(testing.TB) { server.Pause() },
		Resume:  func(testing.TB) { server.Resume() },
		Cut:     func(_ testing.TB, s driver.Store) { s.(*networked).Cut() },
		Heal:    func(_ testing.TB, s driver.Store) { s.(*networked).Heal() },
	}
	if testing.Short() {
		all := func(do func(*servertest.Proxy)) {
			networks.Range(func(p, _ any) bool {
				do(p.(*servertest.Proxy))
				return true
			})
		}
		h.Pause = func(testing.TB) { all((*servertest.Proxy).Blackhole) }
		h.Resume = func(testing.TB) { all((*servertest.Proxy).Heal) }
	}
	return h
}
