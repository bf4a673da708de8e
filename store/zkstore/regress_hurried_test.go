package zkstore_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/servertest"
)

// TestHurriedCallersAreNoOutage: callers who leave the servers a few milliseconds fill the connection of their
// process with questions that nobody waits for any more. Their errors looked like an outage: the circuit
// opened, and a rule that may run without its lock in an outage ran beside the holder, although the servers
// were well.
func TestHurriedCallersAreNoOutage(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	z := newScene(t)
	hold(t, z.open(t), request("held", time.Minute))
	eng, err := core.New(z.open(t), core.WithRunUnlocked())
	must(t, err)
	t.Cleanup(func() { _ = eng.Close(context.Background()) })

	var ran atomic.Int32
	var callers sync.WaitGroup
	end := time.Now().Add(4 * time.Second)
	for range 40 {
		callers.Go(func() {
			for time.Now().Before(end) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond+rand.N(29*time.Millisecond))
				_ = eng.Do(ctx, "held", func(context.Context) error { ran.Add(1); return nil })
				cancel()
			}
		})
	}
	callers.Wait()
	if n := ran.Load(); n > 0 {
		t.Errorf("%d calls ran beside the holder", n)
	}
	err = eng.Do(t.Context(), "free", func(ctx context.Context) error { return core.AssertHeld(ctx, core.Exclusive("free")) })
	if err != nil {
		t.Errorf("a patient caller, afterwards: %v", err)
	}
}
