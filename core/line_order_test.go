package core_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/memstore"
)

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
		ctx, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		_, err := eng.Acquire(ctx, "k")
		wantOnly(t, err, core.ErrUnavailable)
		ctx, cancel = context.WithCancel(bg)
		time.AfterFunc(time.Second, cancel)
		_, err = eng.Acquire(ctx, "k")
		wantOnly(t, err, context.Canceled)
		// Too little time to say anything about the store, of the caller that asks and of those in line behind it.
		results := make(chan error, 3)
		for range cap(results) {
			go func() {
				ctx, cancel := context.WithTimeout(bg, 20*time.Millisecond)
				defer cancel()
				_, err := eng.Acquire(ctx, "k")
				results <- err
			}()
		}
		for range cap(results) {
			wantOnly(t, <-results, context.DeadlineExceeded)
		}
		// A store that hands the engine's own bound back says nothing of a holder.
		spy.onAcquire = func(ctx context.Context, _ driver.Request) error { <-ctx.Done(); return ctx.Err() }
		_, err = eng.Acquire(bg, "k", core.WithMaxWait(time.Second))
		wantOnly(t, err, core.ErrUnavailable)
	})
}
