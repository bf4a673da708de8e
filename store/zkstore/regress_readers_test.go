package zkstore_test

import (
	"sync"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Each reader that left read all others, and refused their requests. So 100 that left together took 7 s, and
// 1000 minutes. Now only the last two decide, for whoever waits then.
func TestReadersLeaveTogether(t *testing.T) {
	t.Parallel()
	z := newScene(t)
	s := z.open(t)
	var readers []driver.Grant
	for range 20 {
		reads := request("k", time.Minute)
		reads.Claims[0].Mode = driver.ModeShared
		readers = append(readers, hold(t, s, reads))
	}
	writer := enqueue(t, z.open(t), request("k", time.Minute))
	leave := func(some []driver.Grant) (version int32) { // each decision makes it greater
		var all sync.WaitGroup
		for _, g := range some {
			all.Go(func() { release(t, s, g) })
		}
		all.Wait()
		_, stat, err := z.Get(z.lock("k"))
		must(t, err)
		return stat.Version
	}
	never := readers[0]
	never.Token++
	wantIs(t, "a lease of another token", s.Release(t.Context(), never), driver.ErrLeaseLost)
	before := leave(nil)
	n := leave(readers[:10]) - before
	check(t, n == 0, "readers that left beside others have made %d decisions", n)
	leave(readers[10:])
	g := writer.Granted()
	check(t, g.Token > readers[19].Token, "the writer has the token %d, after %d", g.Token, readers[19].Token)
	wantIs(t, "a lease that was released", s.Release(t.Context(), readers[0]), driver.ErrLeaseLost)
}
