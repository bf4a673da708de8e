package redlock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
)

// TestEngine: hand-offs, Extend and a TTL that the nodes can't remember.
func TestEngine(t *testing.T) {
	t.Parallel()
	f := sharing(t)
	s := f.open(t)
	if _, err := core.New(s, core.WithTTL(2*time.Minute)); err == nil {
		t.Error("an engine took a TTL above the longest")
	}
	eng, err := core.New(s, core.WithTTL(10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	ctx := within(t, 20*time.Second)
	defer func() { _ = eng.Close(ctx) }()
	lease, err := eng.Acquire(ctx, "key")
	if err != nil {
		t.Fatal(err)
	}
	if err := lease.Extend(ctx, 40*time.Second); err != nil {
		t.Errorf("Extend: %v", err)
	}
	if info, err := eng.Inspect(ctx, "key"); err != nil || len(info.Holders) != 1 || info.Holders[0].Left < 30*time.Second {
		t.Errorf("after Extend: %+v, %v", info, err)
	}
	if err := lease.Extend(ctx, 2*time.Minute); err == nil {
		t.Error("Extend took a TTL above the longest")
	}
	if _, err := eng.AcquireAll(ctx, []core.Claim{driver.Shared("key")}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a shared lease: %v", err)
	}
	if err := lease.Release(ctx); err != nil {
		t.Error(err)
	}
	last := lease.Token()
	done := make(chan uint64, 100)
	for range cap(done) {
		go func() {
			err := eng.Do(ctx, "key", func(ctx context.Context) error {
				held, _ := core.LeaseFrom(ctx)
				done <- held.Token()
				return nil
			})
			if err != nil {
				t.Errorf("Do: %v", err)
				done <- 0
			}
		}()
	}
	for range cap(done) {
		token := <-done
		if token <= last {
			t.Fatalf("token %d after %d", token, last)
		}
		last = token
	}
}
