package core_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
)

// A store that falls silent is out for those in line also where it answered
// another one of several who asked.
func TestSilenceTowardsOneOfSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy, eng := newSpied(t, core.WithCircuit(core.Forever))
		var asked, unanswered atomic.Int32
		spy.onAcquire = func(ctx context.Context, _ driver.Request) error {
			if asked.Add(1) == 3 {
				<-ctx.Done()
				return &core.UnavailableError{Op: "acquire", Err: ctx.Err()}
			}
			time.Sleep(10 * time.Millisecond)
			return nil
		}
		var all sync.WaitGroup
		for range 3 { // the first one's grant lets two more ask
			all.Go(func() {
				l, err := eng.Acquire(bg, "k", core.WithShared(), core.WithMaxWait(5*time.Second))
				if err == nil {
					mustRelease(t, l)
					return
				}
				unanswered.Add(1)
				wantOnly(t, err, core.ErrUnavailable)
			})
			synctest.Wait()
		}
		time.Sleep(time.Second)
		wantOnly(t, errOf(eng.Acquire(bg, "k", core.WithMaxWait(time.Second))), core.ErrUnavailable)
		all.Wait()
		wantEqual(t, "callers without an answer", unanswered.Load(), 1)
	})
}

// A caller that has waited long behind others has not waited for a store that was asked just
// now: it must not run unlocked.
func TestStoreThatWasJustAskedIsNotSilent(t *testing.T) {
	const patience, roundTrip = time.Second, 50 * time.Millisecond
	set := exclusive("a", "b")
	for name, tc := range map[string]struct {
		held  string         // until just before the patience ends
		front [][]core.Claim // in line, in this order, when it is
		late  []core.Claim   // comes just then, too
		who   []core.Claim
		want  []error
	}{
		"in its second line":      {"a", [][]core.Claim{exclusive("a")}, exclusive("b"), set, []error{core.ErrUnavailable}},
		"behind one in two lines": {"b", [][]core.Claim{exclusive("b"), set}, nil, exclusive("a"), []error{core.ErrHeld, core.ErrWaitTimeout}},
	} {
		inBubble(t, name, func(t *testing.T) {
			spy, eng := newSpied(t, nothingUnlocked(t))
			holder := mustAcquire(t, eng, tc.held)
			var all sync.WaitGroup
			wait := func(claims []core.Claim) {
				all.Go(func() {
					wantNil(t, eng.DoAll(bg, claims, noWork))
				})
				synctest.Wait()
			}
			for _, claims := range tc.front {
				wait(claims)
			}
			all.Go(func() {
				err := eng.DoAll(bg, tc.who, noWork, core.WithMaxWait(patience), core.WithRunUnlocked())
				wantOnly(t, err, tc.want...)
			})
			time.Sleep(patience - roundTrip/2)
			spy.mu.Lock()
			spy.onAcquire = taking(roundTrip)
			spy.mu.Unlock()
			if tc.late != nil {
				wait(tc.late)
			}
			mustRelease(t, holder)
			all.Wait()
		})
	}
}
