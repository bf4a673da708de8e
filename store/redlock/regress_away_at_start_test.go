package redlock_test

import (
	"testing"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/drivertest"
	"github.com/keyturn/keyturn/internal/servertest"
)

// TestAwayAtStart: most of the nodes are away when a program starts.
func TestAwayAtStart(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]func(*servertest.Proxy){"refused": (*servertest.Proxy).Cut, "silent": (*servertest.Proxy).Blackhole} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, networks := sharing(t).openProxied(t)
			for _, network := range networks[1:] {
				away(network)
			}
			drivertest.AwayAtStart(t, func() (driver.Store, error) { return s, nil }, func() {
				for _, network := range networks {
					network.Heal()
				}
			})
		})
	}
}
