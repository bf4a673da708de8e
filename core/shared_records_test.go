package core_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/observe"
)

const ledgerTrip = 10 * time.Millisecond

// A thousand twins wait for the first one, in its process and in another, and
// have its result at once, each one a copy of its own.
func TestTwinsGetTheResultTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near := newSpy()
		far := near.peer()
		near.onAcquire, far.onAcquire = taking(ledgerTrip), taking(ledgerTrip)
		var ends, duplicates, without atomic.Int64 // of executions, and of acquisitions without a lease or an error
		engines := []*core.Engine{newEngine(t, near, core.WithHooks(observe.Hooks{
			AcquireEnd: func(_ context.Context, _ observe.Acquisition, l observe.Lease, err error) {
				if l == nil && err == nil {
					without.Add(1)
				}
			},
			OnceEnd: func(_ context.Context, _ observe.Execution, out observe.Outcome, err error) {
				if ends.Add(1); out.Duplicate && err == nil {
					duplicates.Add(1)
				}
			},
		})), newEngine(t, far)}
		right, wrong := core.WithFingerprint([]byte("right")), core.WithFingerprint([]byte("wrong"))
		began := time.Now()
		const runs = 5 * time.Second
		var all sync.WaitGroup
		all.Go(func() {
			out, err := engines[0].Once(bg, "k", func(context.Context) ([]byte, error) {
				time.Sleep(runs)
				return []byte("result"), nil
			}, right)
			if err != nil || out.Duplicate {
				t.Errorf("the first: %+v, %v", out, err)
			}
			out.Result[0] = 'X' // it is the caller's
		})
		time.Sleep(time.Second)
		for i := range 2000 {
			all.Go(func() {
				content := right
				if i%10 == 0 {
					content = wrong
				}
				out, err := engines[i%2].Once(bg, "k", func(context.Context) ([]byte, error) {
					t.Error("ran again")
					return nil, nil
				}, content)
				if took := time.Since(began); took > runs+5*ledgerTrip {
					t.Errorf("a twin was answered after %v", took)
				}
				if i%10 == 0 {
					wantOnly(t, err, core.ErrFingerprintMismatch)
					return
				}
				if err != nil || !out.Duplicate || string(out.Result) != "result" {
					t.Errorf("%+v, %v", out, err)
				}
				clear(out.Result) // the caller's, too
			})
		}
		all.Wait()
		for i, s := range []*spy{near, far} {
			if n := s.requests(); n > 4 {
				t.Errorf("process %d asked the store %d times", i, n)
			}
			wantNothingLeft(t, engines[i])
		}
		if ends.Load() != 1001 || duplicates.Load() != 800 || without.Load() != 1000 {
			t.Errorf("observers saw %d ends, %d duplicates, %d acquisitions without a lease or an error", ends.Load(), duplicates.Load(), without.Load())
		}
	})
}
