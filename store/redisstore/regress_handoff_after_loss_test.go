package redisstore_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/redistest"
)

// The lock of a holder is deleted and another process has the key by the time that
// the holder is done. What it had was handed on within its process, without a word
// to the server: its heir began after the other one, and had the smaller token.
func TestNoHandOffOfWhatTheServerLost(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client()
	one, other := engine(t, server), engine(t, server)
	ctx := within(t, 60*time.Second)
	for round := range 8 {
		first, err := one.Acquire(ctx, "k")
		if err != nil {
			t.Fatal(err)
		}
		var heir *core.Lease
		var failed error
		var waits sync.WaitGroup
		waits.Go(func() { heir, failed = one.Acquire(ctx, "k") })
		time.Sleep(time.Millisecond) // it is in line, on most machines
		if round%2 == 0 {
			err = client.Del(ctx, "lock:k").Err()
		} else {
			err = client.FlushAll(ctx).Err()
		}
		if err != nil {
			t.Fatal(err)
		}
		between, err := other.TryAcquire(ctx, "k")
		if errors.Is(err, driver.ErrHeld) { // on a slow machine the heir is in the server's line by now
			waits.Wait()
			if failed != nil {
				t.Fatal(failed)
			}
			_, _ = heir.Release(context.Background()), first.Release(context.Background())
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond) // the hold
		if err := first.Release(context.Background()); !errors.Is(err, driver.ErrLeaseLost) {
			t.Errorf("round %d: the release of what was lost: %v", round, err)
		}
		time.Sleep(2 * time.Millisecond)
		if err := between.Release(context.Background()); err != nil {
			t.Fatal(err)
		}
		waits.Wait()
		if failed != nil {
			t.Fatal(failed)
		}
		if heir.Token() <= between.Token() {
			t.Errorf("round %d: token %d after %d", round, heir.Token(), between.Token())
		}
		if err := heir.Release(context.Background()); err != nil {
			t.Errorf("round %d: the heir's release: %v", round, err)
		}
	}
}
