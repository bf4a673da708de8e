package core_test

import (
	"context"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/memstore"
)

// A store may keep a request's context when it has answered, to find out that nobody waits
// for what it still does. So the context is never another request's.
func TestContextOfARequestIsItsOwn(t *testing.T) {
	store := newSpy()
	eng := newEngine(t, store)
	var kept []context.Context
	store.onAcquire = func(ctx context.Context, _ driver.Request) error {
		for i, earlier := range kept {
			if earlier.Err() == nil {
				t.Errorf("request %d has ended, its context goes on during request %d", i, len(kept))
			}
		}
		kept = append(kept, ctx)
		return nil
	}
	for range 100 {
		mustRelease(t, mustAcquire(t, eng, "k"))
	}
}

// There may be a hundred thousand leases. The allocator has objects of 640 bytes, then of 704, and
// needs 8 of them.
func TestLeaseIsSmall(t *testing.T) {
	if core.LeaseBytes > 632 {
		t.Errorf("%d bytes", core.LeaseBytes)
	}
}

// A lease that nobody else wants makes little work for the garbage collector, which would
// bound how the engine scales over processors.
func TestDoAllocatesLittle(t *testing.T) {
	if racing {
		t.Skip("the race detector has pools lose what they keep")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for name, tc := range map[string]struct {
		opts []core.CallOption
		most float64
	}{
		"waits":     {nil, 5},
		"fail fast": {[]core.CallOption{policy(t, core.WithFailFast())}, 5},
		"lingers":   {[]core.CallOption{policy(t, core.WithLinger(time.Minute))}, 3},
	} {
		eng := newEngine(t, memstore.New())
		n := testing.AllocsPerRun(1000, func() {
			must(t, eng.Do(ctx, "k", noWork, tc.opts...))
		})
		if n > tc.most {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
