package core_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
		if took := time.Since(began); took > (readers/most+1)*roundTrip {
			t.Errorf("it took %v until all had it", took)
		}
		wantEqual(t, "requests at the same time", spy.mostAtOne, most)
	})
}

// Nobody overtakes a writer of the same process, and writers keep their order.
func TestOrderOfOneProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng := newEngine(t, memstore.New())
		holder := mustAcquire(t, eng, "k")
		var mu sync.Mutex
		var got []string
		var all sync.WaitGroup
		for i, mode := range "wwrrwrrrpppw" {
			opts := map[rune][]core.CallOption{'w': nil, 'r': {core.WithShared()}, 'p': {core.WithPermits(2)}}[mode]
			all.Go(func() {
				l := mustAcquire(t, eng, "k", opts...)
				mu.Lock()
				got = append(got, fmt.Sprintf("%c%v", mode, time.Now().Second()))
				mu.Unlock()
				time.Sleep(time.Second)
				mustRelease(t, l)
			})
			if i == 5 { // one that gives up is not in anybody's way
				ctx, giveUp := context.WithCancel(bg)
				go func() { _, _ = eng.Acquire(ctx, "k") }()
				synctest.Wait()
				defer giveUp()
				time.AfterFunc(time.Millisecond, giveUp)
			}
			synctest.Wait()
		}
		time.Sleep(time.Second) // the readers' and permits' phases begin at whole seconds
		mustRelease(t, holder)
		all.Wait()
		want := []string{"w1", "w2", "r3", "r3", "w4", "r5", "r5", "r5", "p6", "p6", "p7", "w8"}
		check(t, slices.Equal(got, want), "turns at %v, want %v", got, want)
	})
}

// A caller that waits for one member of a group keeps nobody from another member, whether it
// waits at the store or in this process. Nobody overtakes a caller that wants the group.
func TestSiblingsDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng := newEngine(t, memstore.New(), core.WithMaxWait(core.Forever))
		var mu sync.Mutex
		var got []string
		var all sync.WaitGroup
		for _, path := range []string{"g/a", "g/a at the store", "g/a in line", "g/b", "g/c", "h/a", "g", "g/d behind it"} {
			all.Go(func() {
				key, _, _ := strings.Cut(path, " ")
				wantNil(t, eng.DoAll(bg, core.Under(key), func(context.Context) error {
					mu.Lock()
					got = append(got, path)
					mu.Unlock()
					time.Sleep(time.Second)
					return nil
				}))
			})
			synctest.Wait()
		}
		for i, want := range [][]string{{"g/a", "g/b", "g/c", "h/a"}, {"g/a at the store"}, {"g/a in line"}, {"g"}, {"g/d behind it"}} {
			mu.Lock()
			check(t, slices.Equal(got, want), "after %d s: %v, want %v", i, got, want)
			got = nil
			mu.Unlock()
			time.Sleep(time.Second)
			synctest.Wait()
		}
		all.Wait()
		wantNothingLeft(t, eng)
	})
}

// Two goroutines of one process are strangers to each other. (etcd#11360)
func TestOneAtATimePerKey(t *testing.T) {
	eng := newEngine(t, memstore.New())
	ran := 0 // unguarded on purpose: the race detector watches
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() { wantNil(t, eng.Do(bg, "k", func(context.Context) error { ran++; return nil })) })
	}
	all.Wait()
	wantEqual(t, "ran", ran, 200)
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
