package redisstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/redistest"
)

// TestUnansweredDowngrade: an acquisition that had no answer is undone. A downgrade is repeated
// instead, and the owner keeps the lease.
func TestUnansweredDowngrade(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	eng, other := engine(t, server, core.WithTTL(6*time.Second)), engine(t, server)
	ctx := context.Background()
	l, err := eng.Acquire(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	server.Pause()
	err = l.Downgrade(within(t, 300*time.Millisecond))
	server.Resume()
	if !errors.Is(err, core.ErrOutcomeUnknown) {
		t.Errorf("error %v", err)
	}
	// Repeated by the watchdog after a tenth of the TTL: readers get in by then.
	eventually(t, 5*time.Second, "a reader", func() bool {
		reader, err := other.TryAcquire(ctx, "k", core.WithShared())
		if err != nil {
			return false
		}
		return reader.Release(ctx) == nil
	})
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if _, err := other.TryAcquire(ctx, "k"); !errors.Is(err, driver.ErrHeld) {
			t.Fatalf("a writer gets in: %v", err)
		}
	}
	if err := l.Err(); err != nil {
		t.Error(err)
	}
	if err := l.Release(ctx); err != nil {
		t.Error(err)
	}
}
