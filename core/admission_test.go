package core_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/memstore"
)

// taking makes each request take a round trip, so that it shows which ones go
// together.
func taking(d time.Duration) func(context.Context, driver.Request) error {
	return func(context.Context, driver.Request) error { time.Sleep(d); return nil }
}

// A thousand readers wait in this process, one of them at the store; when the
// key is theirs they ask together, within bounds, and all have it at once.
func TestReadersAreAdmittedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const readers, most, roundTrip = 1000, 64, 10 * time.Millisecond
		spy, eng := newSpied(t, core.WithTTL(time.Hour))
		spy.onAcquire = taking(roundTrip)
		writer := mustAcquire(t, eng, "k")
		granted := make(chan *core.Lease, readers)
		for range readers {
			go func() { granted <- mustAcquire(t, eng, "k", core.WithShared()) }()
		}
		time.Sleep(time.Second)
		wantEqual(t, "readers at the store", spy.atStore("k"), 1)
		mustRelease(t, writer)
		began := time.Now()
		for range readers {
			defer mustRelease(t, <-granted)
		}
		took := time.Since(began)
		check(t, took <= (readers/most+1)*roundTrip, "it took %v until all had it", took)
		wantEqual(t, "requests at the same time", spy.mostAtOne, most)
	})
}

// Nobody overtakes a writer of the same process, and writers keep their order. A caller that waits for one member of a
// group keeps nobody from another member, whether it waits at the store or in this process; nobody overtakes a caller
// that wants the group.
func TestOrderOfOneProcess(t *testing.T) {
	modes := map[string][]core.Claim{"w": exclusive("k"), "r": {core.Shared("k")}, "p": {core.Permit("k", 2)}}
	for callers, want := range map[string]string{ // who has a turn of one second, and when
		"w w w r r w r r r p p p w":     "w0 w1 w2 r3 r3 w4 r5 r5 r5 p6 p6 p7 w8",
		"g/a g/a g/a g/b g/c h/a g g/d": "g/a0 g/b0 g/c0 h/a0 g/a1 g/a2 g3 g/d4",
	} {
		inBubble(t, callers, func(t *testing.T) {
			eng := newEngine(t, memstore.New())
			var mu sync.Mutex
			var turns []string
			var all sync.WaitGroup
			for i, caller := range strings.Fields(callers) {
				claims := modes[caller]
				if claims == nil {
					claims = core.Under(caller)
				}
				all.Go(func() {
					wantNil(t, eng.DoAll(bg, claims, func(context.Context) error {
						mu.Lock()
						turns = append(turns, fmt.Sprint(caller, time.Now().Second()))
						mu.Unlock()
						time.Sleep(time.Second)
						return nil
					}))
				})
				synctest.Wait()
				if i == 6 { // a writer that gives up is not in anybody's way
					all.Go(func() { wantOnly(t, errOf(eng.Acquire(callerFor(t, 0, 1), claims[0].Key)), context.Canceled) })
					synctest.Wait()
				}
			}
			all.Wait()
			wantEqual(t, "turns", strings.Join(turns, " "), want)
			wantNothingLeft(t, eng)
		})
	}
}

func TestCallerMayUseItsClaimsAgain(t *testing.T) {
	eng := newEngine(t, memstore.New())
	claims := exclusive("a")
	l := acquireAll(t, eng, claims...)
	claims[0] = core.Exclusive("b")
	mustRelease(t, l)
	isFree(t, eng, "a")
}

// Contention, the caller's own cancel and the caller's own deadline are told
// apart, and each comes when it should. (redsync#98, #164)
func TestHeldKeyIsRefusedByKind(t *testing.T) {
	held := []error{core.ErrHeld}
	timedOut := []error{core.ErrHeld, core.ErrWaitTimeout}
	for name, tc := range map[string]struct {
		cancelAfter, deadline time.Duration
		opts                  []core.CallOption
		took                  time.Duration
		want                  []error
	}{
		"waited out":            {took: 3 * time.Second, want: timedOut},
		"waited out, own bound": {opts: []core.CallOption{core.WithMaxWait(time.Second)}, took: time.Second, want: timedOut},
		"fail fast":             {opts: []core.CallOption{core.WithFailFast()}, want: held},
		"waits after all":       {opts: []core.CallOption{policy(t, core.WithFailFast()), core.WithMaxWait(time.Second)}, took: time.Second, want: timedOut},
		"the caller gave up":    {cancelAfter: time.Second, took: time.Second, want: []error{context.Canceled}},
		"the caller's deadline": {deadline: time.Second, took: time.Second, want: []error{context.DeadlineExceeded}},
		"deadline, no max wait": {deadline: time.Hour, opts: []core.CallOption{core.WithMaxWait(core.Forever), core.WithMaxHold(core.Forever)}, took: time.Hour, want: []error{context.DeadlineExceeded}},
	} {
		inBubble(t, name, func(t *testing.T) {
			eng := newEngine(t, memstore.New(), core.WithMaxWait(3*time.Second), core.WithMaxHold(core.Forever))
			holder := mustAcquire(t, eng, "k")
			ctx := callerFor(t, tc.deadline, tc.cancelAfter)
			// In line behind another waiter it must be no different.
			var both sync.WaitGroup
			for range 2 {
				both.Go(func() {
					began := time.Now()
					err := errOf(eng.Acquire(ctx, "k", tc.opts...))
					wantOnly(t, err, tc.want...)
					wantTook(t, began, tc.took)
					var held *core.HeldError
					if errors.As(err, &held) && (held.Holder != holder.Owner() || held.Key != "k" || held.Waited != tc.took || held.RetryAfter <= 0) {
						t.Errorf("details: %+v", held)
					}
				})
			}
			both.Wait()
			mustRelease(t, holder)
			mustRelease(t, mustAcquire(t, eng, "k")) // nobody left in line
		})
	}
}
