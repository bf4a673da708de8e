package memstore_test

import (
	"testing"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/drivertest"
	"github.com/keyturn/keyturn/store/memstore"
)

func BenchmarkStore(b *testing.B) {
	mem := memstore.New()
	drivertest.Bench(b, drivertest.Harness{New: func(testing.TB) driver.Store { return mem.Peer() }})
}
