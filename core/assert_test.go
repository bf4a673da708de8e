package core_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/store/memstore"
)

func TestAssertHeld(t *testing.T) {
	spy, eng := newSpied(t)
	wantOnly(t, core.AssertHeld(bg, core.Exclusive("a")), core.ErrNotHeld)
	var kept context.Context
	err := eng.Do(bg, "a", func(ctx context.Context) error {
		return eng.Do(ctx, "b", func(ctx context.Context) error {
			kept = ctx
			for _, key := range []string{"a", "b"} { // the inner one, and the one around it
				if err := core.AssertHeld(ctx, core.Exclusive(key)); err != nil {
					t.Errorf("%s: %v", key, err)
				}
			}
			wantOnly(t, core.AssertHeld(ctx, core.Exclusive("c")), core.ErrNotHeld)
			return nil
		})
	})
	must(t, err)
	// A goroutine that outlives its handler.
	wantOnly(t, core.AssertHeld(context.WithoutCancel(kept), core.Exclusive("a")), core.ErrReleased)

	l := mustAcquire(t, eng, "a", core.WithoutCancelOnLoss())
	breakLock(t, spy, l)
	_ = l.Release(bg)
	wantOnly(t, core.AssertHeld(l.Context(), core.Exclusive("a")), core.ErrLeaseLost)

	// Held again further in: the outer loss does not matter.
	again, err := eng.Acquire(context.WithoutCancel(l.Context()), "a")
	must(t, err)
	wantNil(t, core.AssertHeld(again.Context(), core.Exclusive("a")))
	mustRelease(t, again)
}

// A lease counts as what it is now.
func TestAssertHeldFollowsTheLease(t *testing.T) {
	eng := newEngine(t, newSpy())
	exclusive := core.Exclusive("k")
	l := mustAcquire(t, eng, "k")
	inner, err := eng.Acquire(l.Context(), "k", core.WithShared())
	must(t, err)
	wantNil(t, core.AssertHeld(inner.Context(), exclusive))
	must(t, l.Downgrade(bg))
	for _, ctx := range []context.Context{l.Context(), inner.Context()} {
		wantOnly(t, core.AssertHeld(ctx, exclusive), core.ErrNotHeld)
		wantNil(t, core.AssertHeld(ctx, core.Shared("k")))
	}
	mustRelease(t, inner)
	mustRelease(t, l)
	wantOnly(t, core.AssertHeld(context.WithoutCancel(l.Context()), core.Shared("k")), core.ErrReleased)
	wantOnly(t, core.AssertHeld(context.WithoutCancel(l.Context()), exclusive), core.ErrNotHeld)
}

func ExampleAssertHeld() {
	ctx := context.Background()
	eng, _ := core.New(memstore.New())
	defer eng.Close(ctx)
	rename := func(ctx context.Context) error {
		// This must not run next to readers.
		if err := core.AssertHeld(ctx, core.Exclusive("group:7")); err != nil {
			return err
		}
		return nil // ... and here it writes
	}
	fmt.Println(eng.Do(ctx, "group:7", rename))
	fmt.Println(eng.Do(ctx, "group:7", rename, core.WithShared()))
	// Output:
	// <nil>
	// keyturn: not held: "group:7" is held shared only
}
