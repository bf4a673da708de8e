package core_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
)

// A set of which the context holds a part.
func TestSetThatIsHeldInPart(t *testing.T) {
	store := newSpy()
	eng := newEngine(t, store)
	outer := mustAcquire(t, eng, "b")
	set, err := eng.AcquireAll(outer.Context(), exclusive("c", "b", "a"))
	must(t, err)
	if c := set.Claims(); len(c) != 2 || c[0].Key != "a" || c[1].Key != "c" || set.Token() == outer.Token() || core.Observed(set).Depth() != 1 {
		t.Errorf("claims %v, token %d in %d, depth %d", c, set.Token(), outer.Token(), core.Observed(set).Depth())
	}
	for _, key := range []string{"a", "b", "c"} {
		wantNil(t, core.AssertHeld(set.Context(), core.Exclusive(key)))
	}
	all, err := eng.AcquireAll(set.Context(), exclusive("a", "b", "c")) // by two leases
	if err != nil || store.requests() != 2 || core.Observed(all).Depth() != 2 || all.Token() != set.Token() || len(all.Claims()) != 2 {
		t.Errorf("asked %d times; depth %d, claims %v, %v", store.requests(), core.Observed(all).Depth(), all.Claims(), err)
	}
	mustRelease(t, all)
	mustRelease(t, set)
	mustRelease(t, set)
	if outer.Err() != nil || store.releases() != 1 {
		t.Errorf("outer: %v; %d releases", outer.Err(), store.releases())
	}

	err = eng.DoAll(outer.Context(), exclusive("a", "b"), func(ctx context.Context) error {
		mustRelease(t, outer)
		return nil
	})
	if lost := (*core.LeaseLostError)(nil); !errors.As(err, &lost) || lost.Key != "b" || lost.Reason != driver.LossOuter {
		t.Errorf("the part that it left to another was lost: %v", err)
	}
	if store.releases() != 3 || eng.Left() != "" {
		t.Errorf("%d releases; left: %s", store.releases(), eng.Left())
	}
}

// The rest is lost or not certainly released: that is for the set's lease to say.
func TestSetTellsHowItsRestEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy := newSpy()
		eng := newEngine(t, spy)
		outer := mustAcquire(t, eng, "a")
		within := func() *core.Lease {
			l, _ := eng.AcquireAll(outer.Context(), exclusive("a", "b"))
			return l
		}
		set := within()
		breakLock(t, spy, set)
		wantOnly(t, set.Release(bg), core.ErrLeaseLost)
		wantOnly(t, set.Err(), core.ErrLeaseLost)

		set = within()
		spy.onRelease = func(context.Context, driver.Grant) error { return errDown }
		wantOnly(t, set.Release(bg), core.ErrOutcomeUnknown, core.ErrUnavailable)
		spy.mend()
		mustRelease(t, set)
		isFree(t, eng, "b")
		mustRelease(t, outer)
	})
}

func exclusive(keys ...string) (claims []core.Claim) {
	for _, k := range keys {
		claims = append(claims, core.Exclusive(k))
	}
	return claims
}
