//go:build unix

package storetest

import (
	"sync"
	"testing"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/drivertest"
	"github.com/keyturn/keyturn/internal/servertest"
)

// Networks are between stores and their server.
type Networks struct{ all sync.Map } // driver.Store -> *servertest.Proxy

// add opens a store behind a network of its own.
func (n *Networks) add(t testing.TB, server string, open func(t testing.TB, addr string) driver.Store) driver.Store {
	t.Helper()
	p := servertest.NewProxy(t, server)
	s := open(t, p.Addr())
	n.all.Store(s, p)
	return s
}

// Cut takes the network from one store, and Heal gives it back.
func (n *Networks) Cut(_ testing.TB, s driver.Store)  { n.of(s).Cut() }
func (n *Networks) Heal(_ testing.TB, s driver.Store) { n.of(s).Heal() }

func (n *Networks) of(s driver.Store) *servertest.Proxy {
	p, _ := n.all.Load(s)
	return p.(*servertest.Proxy)
}

// SilenceAll loses everything on all networks, until HealAll.
func (n *Networks) SilenceAll(testing.TB) { n.each((*servertest.Proxy).Blackhole) }
func (n *Networks) HealAll(testing.TB)    { n.each((*servertest.Proxy).Heal) }

func (n *Networks) each(do func(*servertest.Proxy)) {
	n.all.Range(func(_, p any) bool { do(p.(*servertest.Proxy)); return true })
}

// Networked completes a harness: every store is a process with a network of its own.
func Networked(h drivertest.Harness, server string, open func(t testing.TB, addr string) driver.Store) (drivertest.Harness, *Networks) {
	n := new(Networks)
	h.New = func(t testing.TB) driver.Store { return n.add(t, server, open) }
	h.Cut, h.Heal = n.Cut, n.Heal
	return h, n
}

// AwayAtStart tests a store that is made while its server refuses connections, or is silent. open makes the store
// on an address.
func AwayAtStart(t *testing.T, server string, open func(addr string) (driver.Store, error)) {
	for name, away := range map[string]func(*servertest.Proxy){"refused": (*servertest.Proxy).Cut, "silent": (*servertest.Proxy).Blackhole} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			network := servertest.NewProxy(t, server)
			away(network)
			drivertest.AwayAtStart(t, func() (driver.Store, error) { return open(network.Addr()) }, network.Heal)
		})
	}
}

// Every does something with all of them: for what a harness does with several servers.
func Every[T any](all []T, do func(T)) func(testing.TB) {
	return func(testing.TB) {
		for _, one := range all {
			do(one)
		}
	}
}
