package dbtest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

var owners atomic.Int64

// request asks for key as a new owner.
func request(key string, ttl time.Duration) driver.Request {
	return driver.Request{Owner: fmt.Sprintf("owner-%d", owners.Add(1)), Claims: []driver.Claim{driver.Exclusive(key)}, TTL: ttl}
}

// takeTurns has callers of each store wait for one key, each that many times, and checks that one
// at a time has it, under increasing tokens.
func takeTurns(t *testing.T, stores []driver.Store, callers, times int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var inside atomic.Int64
	var last atomic.Uint64
	var all sync.WaitGroup
	for _, s := range stores {
		for range callers {
			all.Go(func() {
				for range times {
					req := request("turns", time.Minute)
					req.Wait = true
					g, err := s.Acquire(ctx, req)
					if err != nil {
						t.Errorf("Acquire: %v", err)
						return
					}
					if n := inside.Add(1); n != 1 {
						t.Errorf("%d hold the key", n)
					}
					if before := last.Swap(g.Token); before >= g.Token {
						t.Errorf("token %d after %d", g.Token, before)
					}
					inside.Add(-1)
					if err := s.Release(ctx, g); err != nil {
						t.Errorf("Release: %v", err)
					}
				}
			})
		}
	}
	all.Wait()
}
