package core_test

import (
	"context"
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
		spy := newSpy()
		spy.onAcquire = taking(roundTrip)
		eng := newEngine(t, spy, core.WithTTL(time.Hour))
		writer := mustAcquire(t, eng, "k")
		granted := make(chan *core.Lease, readers)
		for range readers {
			go func() { granted <- mustAcquire(t, eng, "k", core.WithShared()) }()
		}
		time.Sleep(time.Second)
		wantEqual(t, "readers at the store", spy.atStore("k"), 1)
		mustRelease(t, writer)
		began := time.Now()
		var all []*core.Lease
		for range readers {
			all = append(all, <-granted)
		}
		if took := time.Since(began); took > (readers/most+1)*roundTrip {
			t.Errorf("it took %v until all had it", took)
		}
		wantEqual(t, "requests at the same time", spy.mostAtOne, most)
		for _, l := range all {
			mustRelease(t, l)
		}
		wantNothingLeft(t, eng)
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
