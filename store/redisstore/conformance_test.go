package redisstore_test

import (
	"sync"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/drivertest"
	"github.com/keyturn/keyturn/core/drivertest/model"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/store/redisstore"
)

// TestContract runs the suite that every store has to pass. Every store is a
// process with a network of its own.
func TestContract(t *testing.T) {
	t.Parallel() // with the other tests; its own go one by one
	server := redistest.Start(t)
	var networks sync.Map // driver.Store -> *servertest.Proxy
	network := func(s driver.Store) *servertest.Proxy {
		p, _ := networks.Load(s)
		return p.(*servertest.Proxy)
	}
	drivertest.Run(t, drivertest.Harness{
		TTL:      300 * time.Millisecond,
		Latitude: model.Latitude{Blurred: true},
		New: func(t testing.TB) driver.Store {
			p := servertest.NewProxy(t, server.Addr())
			s := open(t, throughProxy(server, p))
			networks.Store(s, p)
			return s
		},
		Restart: func(t testing.TB) { server.Restart(t) },
		Pause:   func(testing.TB) { server.Pause() },
		Resume:  func(testing.TB) { server.Resume() },
		Cut:     func(_ testing.TB, s driver.Store) { network(s).Cut() },
		Heal:    func(_ testing.TB, s driver.Store) { network(s).Heal() },
	})
}

// TestContractOfCluster runs it where every script has the keys of one claim
// only, and where no prefix stands in front of the keys.
func TestContractOfCluster(t *testing.T) {
	t.Parallel()
	servers, client := startCluster(t)
	drivertest.Run(t, drivertest.Harness{
		New:      func(t testing.TB) driver.Store { return open(t, client, redisstore.WithPrefix("")) },
		Latitude: model.Latitude{Blurred: true, Apart: true},
		Pause: func(testing.TB) {
			for _, server := range servers {
				server.Pause()
			}
		},
		Resume: func(testing.TB) {
			for _, server := range servers {
				server.Resume()
			}
		},
	})
}
