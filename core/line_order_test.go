package core_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/memstore"
)

// The waiters of one process are served in the order they came, and the store
// never sees more than one of them. (redsync#102, #122) None sleeps past its
// turn. (redisson#3891, rueidis#653)
func TestLineIsFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy := newSpy()
		eng := newEngine(t, spy)
		holder := mustAcquire(t, eng, "k")
		var served []int
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() {
				l := mustAcquire(t, eng, "k")
				served = append(served, i)
				mustRelease(t, l)
			})
			synctest.Wait() // it stands in line
		}
		began := time.Now()
		mustRelease(t, holder)
		all.Wait()
		if took := time.Since(began); took != 0 {
			t.Errorf("somebody slept, for %v", took)
		}
		if !slices.IsSorted(served) || len(served) != 50 {
			t.Errorf("served in the order %v", served)
		}
		if spy.mostAtOne != 1 {
			t.Errorf("%d waiters at the store for one key", spy.mostAtOne)
		}
	})
}

func TestTooManyWaiters(t *testing.T) {
	for most, opts := range map[int][]core.EngineOption{2: {core.WithMaxWaiters(2)}, 1000: nil} {
		synctest.Test(t, func(t *testing.T) {
			eng := newEngine(t, memstore.New(), append(opts, core.WithMaxWait(time.Second))...)
			holder := mustAcquire(t, eng, "k")
			for range 2 { // those that have given up make room
				var waiting sync.WaitGroup
				for range most {
					waiting.Go(func() {
						_, err := eng.Acquire(bg, "k")
						wantOnly(t, err, core.ErrHeld, core.ErrWaitTimeout)
					})
				}
				synctest.Wait()
				_, err := eng.Acquire(bg, "k")
				wantOnly(t, err, core.ErrTooManyWaiters)
				mustRelease(t, mustAcquire(t, eng, "other")) // per key
				_, err = eng.TryAcquire(bg, "k")
				wantOnly(t, err, core.ErrHeld) // does not stand in line
				waiting.Wait()
			}
			mustRelease(t, holder)
			mustRelease(t, mustAcquire(t, eng, "k"))
		})
	}
}

func TestDeadlineDuringAnOutageSaysOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy := newSpy()
		spy.onAcquire = func(ctx context.Context, _ driver.Request) error {
			<-ctx.Done()
			return &core.UnavailableError{Op: "acquire", Err: ctx.Err()}
		}
		eng := newEngine(t, spy)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := eng.Acquire(ctx, "k")
		wantOnly(t, err, core.ErrUnavailable)
		ctx, cancel = context.WithCancel(context.Background())
		time.AfterFunc(time.Second, cancel)
		_, err = eng.Acquire(ctx, "k")
		wantOnly(t, err, context.Canceled)
		// A store that hands the engine's own bound back says nothing of a holder.
		spy.onAcquire = func(ctx context.Context, _ driver.Request) error { <-ctx.Done(); return ctx.Err() }
		_, err = eng.Acquire(context.Background(), "k", core.WithMaxWait(time.Second))
		wantOnly(t, err, core.ErrUnavailable)
	})
}
