package core_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/store/memstore"
)

// The effect is on record whatever becomes of its result: a function whose result
// is over the limit used to run again with every delivery.
func TestOnceRecordsTheEffectOfAResultOverTheLimit(t *testing.T) {
	for name, tc := range map[string]struct {
		size   int
		result error // what the function returns along with it
		opts   []core.CallOption
		full   bool // the store has no room for it
		kept   bool
	}{
		"at the limit":    {size: defaultResultLimit, kept: true},
		"over the limit":  {size: defaultResultLimit + 1},
		"no limit left":   {size: 1, opts: []core.CallOption{core.WithResultLimit(0)}},
		"no result":       {size: 0, opts: []core.CallOption{core.WithResultLimit(0)}, kept: true},
		"not to be kept":  {size: 10, result: core.ErrSkipResult},
		"nothing to keep": {size: 0, result: core.ErrSkipResult},
		"no room":         {size: 10, full: true},
	} {
		t.Run(name, func(t *testing.T) {
			shared := memstore.New()
			runs := 0
			for delivery := range 3 {
				var store driver.Store = shared.Peer() // as if by another process
				if tc.full {
					store = full{shared.Peer()}
				}
				eng := newEngine(t, store)
				out, err := eng.Once(bg, "k", func(context.Context) ([]byte, error) {
					runs++
					return make([]byte, tc.size), tc.result
				}, tc.opts...)
				switch {
				case out.Duplicate != (delivery > 0) || out.ResultNotKept == tc.kept:
					t.Errorf("delivery %d: %+v", delivery, out)
				case delivery == 0 || tc.kept:
					if err != nil || len(out.Result) != tc.size {
						t.Errorf("delivery %d: %d bytes, %v", delivery, len(out.Result), err)
					}
				default:
					wantOnly(t, err, core.ErrResultNotKept)
					var notKept *driver.ResultNotKeptError
					if out.Result != nil || !errors.As(err, &notKept) || notKept.Key != "k" {
						t.Errorf("delivery %d: %d bytes, %v", delivery, len(out.Result), err)
					}
				}
			}
			wantEqual(t, "effects of three deliveries", runs, 1)
			isFree(t, newEngine(t, shared), "k")
		})
	}
}

// A wrapped ErrSkipResult is an error like any other: it may come from another
// execution inside of the function.
func TestOnceTakesOnlySkipResultItselfForOne(t *testing.T) {
	eng := newEngine(t, memstore.New())
	wrapped := fmt.Errorf("inner: %w", core.ErrSkipResult)
	for range 2 {
		out, err := eng.Once(bg, "k", func(context.Context) ([]byte, error) { return nil, wrapped })
		check(t, err == wrapped && !out.Duplicate, "%+v, %v", out, err)
	}
}

// full is a store that has room for marks only (L8).
type full struct{ *memstore.Store }

func (f full) Complete(ctx context.Context, g driver.Grant, rec driver.Record, retention time.Duration) error {
	rec.Result, rec.ResultNotKept = nil, true
	if err := f.Store.Complete(ctx, g, rec, retention); err != nil {
		return err
	}
	return fmt.Errorf("no room: %w", core.ErrResultNotKept)
}

const ledgerTrip = 10 * time.Millisecond

// A thousand twins wait for the first one, in its process and in another, and
// have its result at once, each one a copy of its own.
func TestTwinsGetTheResultTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const runs = 5 * time.Second
		near := newSpy()
		far := near.peer()
		near.onAcquire, far.onAcquire = taking(ledgerTrip), taking(ledgerTrip)
		var duplicates, without atomic.Int64 // of executions, and of acquisitions without a lease or an error
		engines := []*core.Engine{newEngine(t, near, core.WithHooks(observe.Hooks{
			AcquireEnd: func(_ context.Context, _ observe.Acquisition, l observe.Lease, err error) {
				if l == nil && err == nil {
					without.Add(1)
				}
			},
			OnceEnd: func(_ context.Context, _ observe.Execution, out observe.Outcome, err error) {
				if out.Duplicate && err == nil {
					duplicates.Add(1)
				}
			},
		})), newEngine(t, far)}
		right, wrong := core.WithFingerprint([]byte("right")), core.WithFingerprint([]byte("wrong"))
		began := time.Now()
		var all sync.WaitGroup
		all.Go(func() {
			out, err := engines[0].Once(bg, "k", func(context.Context) ([]byte, error) { time.Sleep(runs); return []byte("result"), nil }, right)
			check(t, err == nil && !out.Duplicate, "the first: %+v, %v", out, err)
			out.Result[0] = 'X' // it is the caller's
		})
		time.Sleep(time.Second)
		for i := range 2000 {
			all.Go(func() {
				content := right
				if i%10 == 0 {
					content = wrong
				}
				out, err := engines[i%2].Once(bg, "k", neverRuns, content)
				if took := time.Since(began); took > runs+5*ledgerTrip {
					t.Errorf("a twin was answered after %v", took)
				}
				if i%10 == 0 {
					wantOnly(t, err, core.ErrFingerprintMismatch)
				} else if err != nil || !out.Duplicate || string(out.Result) != "result" {
					t.Errorf("%+v, %v", out, err)
				}
				clear(out.Result) // the caller's, too
			})
		}
		all.Wait()
		if near.requests() > 4 || far.requests() > 4 {
			t.Errorf("the store was asked %d and %d times", near.requests(), far.requests())
		}
		wantNothingLeft(t, engines...)
		if duplicates.Load() != 800 || without.Load() != 1000 {
			t.Errorf("observers saw %d duplicates, %d acquisitions without a lease or an error", duplicates.Load(), without.Load())
		}
	})
}
