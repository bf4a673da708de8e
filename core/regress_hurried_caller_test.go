package core_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// A caller's own deadline of 20 ms ended before the store answered, which took 30 ms. The error was
// that the store is unavailable: an outage to those who count errors or answer requests, although
// the store was well.
func TestAShortDeadlineOfTheCallersOwnIsNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy := newSpy()
		spy.onAcquire = func(ctx context.Context, _ driver.Request) error { <-ctx.Done(); return errDown }
		eng := newEngine(t, spy)
		results := make(chan error, 3)
		for range cap(results) { // one asks the store, the others wait in line behind it
			go func() {
				ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
				defer cancel()
				_, err := eng.Acquire(ctx, "k")
				results <- err
			}()
		}
		for range cap(results) {
			wantOnly(t, <-results, context.DeadlineExceeded)
		}
	})
}
