package core_test

import (
	"context"
	"testing"

	"github.com/keyturn/keyturn/core"
)

func TestAssertHeld(t *testing.T) {
	spy := newSpy()
	eng := newEngine(t, spy)
	wantOnly(t, core.AssertHeld(context.Background(), "a"), core.ErrNotHeld)
	var kept context.Context
	err := eng.Do(context.Background(), "a", func(ctx context.Context) error {
		return eng.Do(ctx, "b", func(ctx context.Context) error {
			kept = ctx
			for _, key := range []string{"a", "b"} { // the inner one, and the one around it
				if err := core.AssertHeld(ctx, key); err != nil {
					t.Errorf("%s: %v", key, err)
				}
			}
			wantOnly(t, core.AssertHeld(ctx, "c"), core.ErrNotHeld)
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	// A goroutine that outlives its handler.
	wantOnly(t, core.AssertHeld(context.WithoutCancel(kept), "a"), core.ErrReleased)

	l := mustAcquire(t, eng, "a", core.WithoutCancelOnLoss())
	breakLock(t, spy, l)
	_ = l.Release(context.Background())
	wantOnly(t, core.AssertHeld(l.Context(), "a"), core.ErrLeaseLost)

	// Held again further in: the outer loss does not matter.
	again, err := eng.Acquire(context.WithoutCancel(l.Context()), "a")
	if err != nil {
		t.Fatal(err)
	}
	if err := core.AssertHeld(again.Context(), "a"); err != nil {
		t.Error(err)
	}
	mustRelease(t, again)
}
