package redisstore_test

import (
	"testing"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/drivertest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/store/storeurl"
)

// TestAwayAtStart: New asked its server, and failed without an answer or waited for it without a bound.
func TestAwayAtStart(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]func(*servertest.Proxy){"refused": (*servertest.Proxy).Cut, "silent": (*servertest.Proxy).Blackhole} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			network := servertest.NewProxy(t, database(t).Addr())
			url := "redis://" + network.Addr()
			away(network)
			drivertest.AwayAtStart(t, func() (driver.Store, error) { return storeurl.Open(t.Context(), url) }, network.Heal)
		})
	}
}
