package redlock_test

import (
	"sync"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/drivertest"
	"github.com/keyturn/keyturn/internal/servertest"
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
		Pause: func(testing.TB) {
			for _, server := range f.servers {
				server.Pause()
			}
		},
		Resume: func(testing.TB) {
			for _, server := range f.servers {
				server.Resume()
			}
		},
		Cut: func(_ testing.TB, s driver.Store) {
			for _, p := range network(s) {
				p.Cut()
			}
		},
		Heal: func(_ testing.TB, s driver.Store) {
			for _, p := range network(s) {
				p.Heal()
			}
		},
	})
}
