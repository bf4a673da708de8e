package etcdstore_test

import (
	"sync"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/drivertest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/store/etcdstore/internal/etcdprocess"
)

// TestContract runs the suite that every store has to pass, on the oldest etcd that is supported.
// Every store is a process with a network of its own.
func TestContract(t *testing.T) {
	server := etcdprocess.Start(t)
	var networks sync.Map // driver.Store -> *servertest.Proxy
	network := func(s driver.Store) *servertest.Proxy {
		p, _ := networks.Load(s)
		return p.(*servertest.Proxy)
	}
	drivertest.Run(t, drivertest.Harness{
		Parallel: true,
		// etcd ends leases up to a second late.
		Late: 3 * time.Second,
		New: func(t testing.TB) driver.Store {
			p := servertest.NewProxy(t, server.Addr())
			s := open(t, etcdprocess.Client(t, p.Addr()))
			networks.Store(s, p)
			return s
		},
		Restart: server.Forget,
		Pause:   func(testing.TB) { server.Pause() },
		Resume:  func(testing.TB) { server.Resume() },
		Cut:     func(_ testing.TB, s driver.Store) { network(s).Cut() },
		Heal:    func(_ testing.TB, s driver.Store) { network(s).Heal() },
	})
}
