package core_test

import (
	"context"
	"errors"
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

// (redisson#2883, #3004, #3730)
func TestWaiterThatGivesUpLeavesTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng := newEngine(t, memstore.New(), core.WithMaxHold(core.Forever))
		holder := mustAcquire(t, eng, "k")
		got := make(chan string, 3)
		wait := func(name string, bound time.Duration) {
			go func() {
				l, err := eng.Acquire(context.Background(), "k", core.WithMaxWait(bound))
				if err != nil {
					got <- name + " gave up"
					return
				}
				got <- name
				mustRelease(t, l)
			}()
			synctest.Wait()
		}
		wait("head", 2*time.Second)
		wait("middle", time.Second)
		wait("last", time.Hour)
		for _, want := range []string{"middle gave up", "head gave up"} {
			if name := <-got; name != want {
				t.Errorf("%s, want %s", name, want)
			}
		}
		mustRelease(t, holder)
		if name := <-got; name != "last" {
			t.Errorf("%s, want last", name)
		}
	})
}

func TestTooManyWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng := newEngine(t, memstore.New(), core.WithMaxWaiters(2), core.WithMaxWait(time.Second))
		holder := mustAcquire(t, eng, "k")
		var waiting sync.WaitGroup
		for range 2 {
			waiting.Go(func() {
				_, err := eng.Acquire(context.Background(), "k")
				wantOnly(t, err, core.ErrHeld, core.ErrWaitTimeout)
			})
		}
		synctest.Wait()
		_, err := eng.Acquire(context.Background(), "k")
		wantOnly(t, err, core.ErrTooManyWaiters)
		mustRelease(t, mustAcquire(t, eng, "other")) // per key
		_, err = eng.TryAcquire(context.Background(), "k")
		wantOnly(t, err, core.ErrHeld) // does not stand in line
		waiting.Wait()
		mustRelease(t, holder)
		mustRelease(t, mustAcquire(t, eng, "k"))
	})
}

func TestCapOfAllLinesTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		eng := newEngine(t, store, core.WithMaxWaitersTotal(4), core.WithMaxWaiters(4), core.WithMaxWait(time.Second))
		other := newEngine(t, store.Peer())
		a, b := mustAcquire(t, other, "a"), mustAcquire(t, other, "b")
		for range 3 { // what left makes room
			var waiting sync.WaitGroup
			for i := range 6 { // of which two ask the store, and don't count
				waiting.Go(func() {
					_, err := eng.Acquire(context.Background(), []string{"a", "b"}[i%2])
					wantOnly(t, err, core.ErrHeld, core.ErrWaitTimeout)
				})
			}
			synctest.Wait()
			_, err := eng.Acquire(context.Background(), "a")
			wantOnly(t, err, core.ErrTooManyWaiters)
			var full *core.TooManyWaitersError
			if !errors.As(err, &full) || full.Key != "" || full.Limit != 4 {
				t.Errorf("error %#v", err)
			}
			waiting.Wait()
		}
		mustRelease(t, a)
		mustRelease(t, b)
		mustRelease(t, mustAcquire(t, eng, "a"))
	})
}

func TestDefaultCapIsAThousandWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng := newEngine(t, memstore.New(), core.WithMaxWait(time.Second))
		holder := mustAcquire(t, eng, "k")
		var waiting sync.WaitGroup
		for range 1000 {
			waiting.Go(func() {
				_, err := eng.Acquire(context.Background(), "k")
				wantOnly(t, err, core.ErrHeld, core.ErrWaitTimeout)
			})
		}
		synctest.Wait()
		_, err := eng.Acquire(context.Background(), "k")
		wantOnly(t, err, core.ErrTooManyWaiters)
		waiting.Wait()
		mustRelease(t, holder)
	})
}

// An outage must not look like contention, not even to those who never got to
// ask the store because they stood in line behind somebody.
func TestOutageIsToldToTheWholeLine(t *testing.T) {
	for name, silent := range map[string]bool{"refusing store": false, "silent store": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				spy := newSpy()
				spy.onAcquire = func(ctx context.Context, _ driver.Request) error {
					if silent {
						<-ctx.Done()
					} else {
						time.Sleep(100 * time.Millisecond)
					}
					return errDown
				}
				eng := newEngine(t, spy)
				var all sync.WaitGroup
				for i := range 20 {
					all.Go(func() {
						_, err := eng.Acquire(context.Background(), "k", core.WithMaxWait(time.Duration(20-i)*20*time.Millisecond))
						wantOnly(t, err, core.ErrUnavailable)
					})
					synctest.Wait()
				}
				all.Wait()
			})
		})
	}
}

func TestContentionAfterAnOutageIsContention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy := newSpy()
		eng := newEngine(t, spy, core.WithMaxWait(time.Minute))
		holder := mustAcquire(t, eng, "k", core.WithTTL(time.Hour), core.WithFailFast()) // nobody waits for a hand-off then
		spy.onAcquire = func(context.Context, driver.Request) error { time.Sleep(time.Second); return errDown }
		var all sync.WaitGroup
		all.Go(func() {
			_, err := eng.Acquire(context.Background(), "k")
			wantOnly(t, err, core.ErrUnavailable)
		})
		synctest.Wait()
		for range 3 {
			all.Go(func() {
				_, err := eng.Acquire(context.Background(), "k")
				wantOnly(t, err, core.ErrHeld, core.ErrWaitTimeout)
			})
		}
		synctest.Wait()
		spy.mu.Lock()
		spy.onAcquire = nil
		spy.mu.Unlock()
		all.Wait()
		mustRelease(t, holder)
	})
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
