package memstore_test

import (
	"testing"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/storetest"
	"github.com/keyturn/keyturn/store/memstore"
)

func BenchmarkStore(b *testing.B) {
	mem := memstore.New()
	storetest.Bench(b, storetest.Harness{New: func(testing.TB) core.Store { return mem.Peer() }})
}
