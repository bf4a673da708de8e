package core_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/memstore"
)

func TestAssertHeld(t *testing.T) {
	spy := newSpy()
	eng := newEngine(t, spy)
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

// A function that changes the state behind a key needs it alone; a function that reads it does
// not.
func TestAssertHeldCoversTheMode(t *testing.T) {
	eng := newEngine(t, newSpy())
	ctx := bg
	for name, tc := range map[string]struct {
		held    core.Claim
		content []core.Claim // with these
		notWith []core.Claim
		other   driver.Mode // which is there instead
	}{
		"exclusive": {held: core.Exclusive("k"), content: []core.Claim{core.Exclusive("k"), core.Shared("k"), core.Permit("k", 3)}},
		"shared":    {held: core.Shared("k"), content: []core.Claim{core.Shared("k")}, notWith: []core.Claim{core.Exclusive("k"), core.Permit("k", 3)}, other: driver.ModeShared},
		"permit":    {held: core.Permit("k", 2), content: []core.Claim{core.Permit("k", 3)}, notWith: []core.Claim{core.Exclusive("k"), core.Shared("k")}, other: driver.ModePermit},
	} {
		t.Run(name, func(t *testing.T) {
			err := eng.DoAll(ctx, []core.Claim{tc.held}, func(ctx context.Context) error {
				for _, c := range tc.content {
					if err := core.AssertHeld(ctx, c); err != nil {
						t.Errorf("%v: %v", c.Mode, err)
					}
				}
				for _, c := range tc.notWith {
					err := core.AssertHeld(ctx, c)
					wantOnly(t, err, core.ErrNotHeld)
					if !strings.Contains(err.Error(), "held "+tc.other.String()) {
						t.Errorf("%v: %v", c.Mode, err)
					}
				}
				wantOnly(t, core.AssertHeld(ctx, core.Exclusive("another")), core.ErrNotHeld)
				return nil
			})
			wantNil(t, err)
		})
	}
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
