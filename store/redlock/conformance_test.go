package redlock_test

import (
	"sync"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/drivertest"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/storetest"
)

// TestContract runs the suite that every store has to pass. Every store is a process with a network of its own.
func TestContract(t *testing.T) {
	f := started(t)
	var networks sync.Map // driver.Store -> []*servertest.Proxy
	network := func(s driver.Store) []*servertest.Proxy {
		p, _ := networks.Load(s)
		return p.([]*servertest.Proxy)
	}
	drivertest.Run(t, drivertest.Harness{
		TTL: 500 * time.Millisecond, // a busy machine may stop a test for 200 ms
		New: func(t testing.TB) driver.Store {
			s, proxies := f.openProxied(t)
			networks.Store(s, proxies)
			return s
		},
		Restart: func(t testing.TB) { f.renew(t) },
		Pause:   func(t testing.TB) { storetest.Every(f.servers, (*redistest.Server).Pause)(t) },
		Resume:  func(t testing.TB) { storetest.Every(f.servers, (*redistest.Server).Resume)(t) },
		Cut:     func(t testing.TB, s driver.Store) { storetest.Every(network(s), (*servertest.Proxy).Cut)(t) },
		Heal:    func(t testing.TB, s driver.Store) { storetest.Every(network(s), (*servertest.Proxy).Heal)(t) },
	})
}
