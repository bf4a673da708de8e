package memstore_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/drivertest"
	"github.com/keyturn/keyturn/store/memstore"
)

// TestContract runs in a bubble: timers are exact and waiting takes no time.
func TestContract(t *testing.T) {
	mem := memstore.New()
	drivertest.Run(t, drivertest.Harness{
		New:    func(testing.TB) driver.Store { return mem.Peer() },
		Around: synctest.Test,
		Settle: synctest.Wait,
	})
}

// TestContractRealTime runs on the machine's clock, where goroutines race.
func TestContractRealTime(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("TestContract runs the same checks, in a bubble")
	}
	mem := memstore.New()
	drivertest.Run(t, drivertest.Harness{
		New: func(testing.TB) driver.Store { return mem.Peer() },
		TTL: 500 * time.Millisecond, // a busy machine may stop a test for 200 ms
	})
}

func BenchmarkStore(b *testing.B) {
	mem := memstore.New()
	drivertest.Bench(b, drivertest.Harness{New: func(testing.TB) driver.Store { return mem.Peer() }})
}
