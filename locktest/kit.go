package locktest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/store/memstore"
)

// Kit is an engine for a test, with its store, which the test may break, and a record of its
// leases.
type Kit struct {
	Engine *core.Engine
	Store  *Store    // the engine's store, which fails on command
	Locks  *Recorder // records what the engine does

	shared *memstore.Store
}

// closeTime is how long the end of a test waits for goroutines that are about to release their
// leases.
const closeTime = 5 * time.Second

// New makes an engine over a store in memory. The engine is closed when the test ends, and the
// test fails if a lease is still held. Hooks given with core.WithHooks are called in addition
// to those of Kit.Locks.
func New(t testing.TB, opts ...core.EngineOption) *Kit {
	t.Helper()
	return open(t, memstore.New(), opts)
}

// Peer makes another engine on the same locks and records, like a second process of the fleet.
// Its faults are its own.
func (k *Kit) Peer(t testing.TB, opts ...core.EngineOption) *Kit {
	t.Helper()
	return open(t, k.shared.Peer(), opts)
}

func open(t testing.TB, mem *memstore.Store, opts []core.EngineOption) *Kit {
	t.Helper()
	k := &Kit{Store: NewStore(mem), Locks: &Recorder{}, shared: mem}
	eng, err := core.New(k.Store, append([]core.EngineOption{core.WithHooks(k.Locks.Hooks())}, opts...)...)
	if err != nil {
		t.Fatalf("locktest: %v", err)
	}
	k.Engine = eng
	t.Cleanup(func() {
		k.Store.Heal() // otherwise Close would wait for the fault to end
		ctx, cancel := context.WithTimeout(context.Background(), closeTime)
		defer cancel()
		if err := eng.Close(ctx); err != nil {
			t.Errorf("locktest: %v; never released: %q", err, k.Locks.keys(func(h Hold) bool { return errors.Is(h.Err, core.ErrClosed) }))
		}
	})
	return k
}
