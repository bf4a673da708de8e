package core_test

import (
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/store/memstore"
)

// TestManyKeys: an engine keeps nothing of a key that nobody holds, so that clients who make up keys
// do not fill its memory.
func TestManyKeys(t *testing.T) {
	if testing.Short() {
		t.Skip("only in the long run")
	}
	keys := 200_000
	if racing {
		keys /= 5
	}
	eng := newEngine(t, memstore.New(), core.WithLinger(time.Millisecond))
	work := noWork
	heap := func() uint64 {
		time.Sleep(50 * time.Millisecond) // leases that linger end
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	do := func(n int) {
		for i := range n {
			must(t, eng.Do(bg, "user:"+strconv.Itoa(i), work))
		}
	}
	do(1000)
	before := heap()
	do(keys)
	if after := heap(); after > before+uint64(20*keys) { // an entry of a map takes more than 20 bytes
		t.Errorf("%d keys left %d KiB behind", keys, (after-before)>>10)
	}
}
