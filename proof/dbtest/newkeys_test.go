package dbtest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/sqltest"
)

// TestNewKeysAreTakenOnce: a key that nobody has used has no row that could be locked. One
// request at a time has the key, whichever of them makes the row.
func TestNewKeysAreTakenOnce(t *testing.T) {
	onEach(t, func(t *testing.T, d *sqltest.Database) {
		var stores []driver.Store
		for range 3 {
			stores = append(stores, open(t, d.Open(t), dialectOf(d)))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for k := range 10 {
			var got atomic.Int64
			var all sync.WaitGroup
			for i := range 9 {
				all.Go(func() {
					// Claims that are not exclusive take no short cut.
					req := request("", time.Minute)
					req.Claims = []driver.Claim{driver.Permit(fmt.Sprint("k", k), 1)}
					if _, err := stores[i%3].Acquire(ctx, req); err == nil {
						got.Add(1)
					}
				})
			}
			all.Wait()
			if n := got.Load(); n != 1 {
				t.Errorf("%d requests have the only permit of a new key", n)
			}
		}
	})
}
