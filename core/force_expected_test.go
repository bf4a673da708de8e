package core_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/store/memstore"
)

// TestForcedReleaseOfWhatWasSeen: an operator who looks and then acts does not take the key
// from somebody who got it in between.
func TestForcedReleaseOfWhatWasSeen(t *testing.T) {
	mem := memstore.New()
	eng, operator := newEngine(t, mem), newEngine(t, mem.Peer())
	stuck := mustAcquire(t, eng, "k")
	seen, err := operator.Inspect(bg, "k")
	must(t, err)
	mustRelease(t, stuck)
	other := mustAcquire(t, eng, "k")
	had, err := operator.ForceRelease(bg, "k", "it hangs", seen.Holders...)
	var held *core.HeldError
	if len(had) != 0 || !errors.As(err, &held) || held.Holder != other.Owner() || errors.Is(err, core.ErrOutcomeUnknown) {
		t.Errorf("a key that another has by now: %v, %v", had, err)
	}
	wantNil(t, other.Extend(bg, 0))

	seen, _ = operator.Inspect(bg, "k")
	had, err = operator.ForceRelease(bg, "k", "it hangs", seen.Holders...)
	if err != nil || len(had) != 1 || had[0].Owner != other.Owner() || had[0].Token != other.Token() {
		t.Errorf("%v, %v", had, err)
	}
	wantOnly(t, other.Release(bg), core.ErrLeaseLost)
}

// TestForcedReleaseOfALeaseThatWasHandedOn: to the store it is the lease of the first holder,
// whose token Inspect shows.
func TestForcedReleaseOfALeaseThatWasHandedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng := newEngine(t, memstore.New())
		first := mustAcquire(t, eng, "k")
		next := make(chan *core.Lease)
		go func() { next <- mustAcquire(t, eng, "k") }()
		synctest.Wait()
		mustRelease(t, first)
		second := <-next
		if second.Owner() != first.Owner() {
			t.Fatal("it was not handed on")
		}
		seen, err := eng.Inspect(bg, "k")
		must(t, err)
		had, err := eng.ForceRelease(bg, "k", "it hangs", seen.Holders...)
		if len(had) != 1 || err != nil {
			t.Errorf("%v, %v", had, err)
		}
		wantOnly(t, second.Release(bg), core.ErrLeaseLost)
	})
}
