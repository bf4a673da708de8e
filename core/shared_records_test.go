package core_test

import (
	"context"
	"errors"
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

// ledgerSpy counts how often it is asked for an execution, which takes a round
// trip each.
type ledgerSpy struct {
	*memstore.Store
	begins atomic.Int64
	fails  atomic.Bool // Complete does not get through
}

const ledgerTrip = 10 * time.Millisecond

func (s *ledgerSpy) Begin(ctx context.Context, req driver.Request) (driver.Grant, *driver.Record, error) {
	s.begins.Add(1)
	time.Sleep(ledgerTrip)
	return s.Store.Begin(ctx, req)
}

func (s *ledgerSpy) Complete(ctx context.Context, g driver.Grant, rec driver.Record, retention time.Duration) error {
	time.Sleep(ledgerTrip)
	if s.fails.Load() {
		return errDown
	}
	return s.Store.Complete(ctx, g, rec, retention)
}

// A thousand twins wait for the first one, in its process and in another, and
// have its result at once, each one a copy of its own.
func TestTwinsGetTheResultTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		near, far := &ledgerSpy{Store: mem}, &ledgerSpy{Store: mem.Peer()}
		stores := []*ledgerSpy{near, far}
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
			out, err := engines[0].Once(context.Background(), "k", func(context.Context) ([]byte, error) {
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
				out, err := engines[i%2].Once(context.Background(), "k", func(context.Context) ([]byte, error) {
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
		for i, s := range stores {
			if n := s.begins.Load(); n > 4 {
				t.Errorf("process %d asked the store %d times", i, n)
			}
			if left := engines[i].Left(); left != "" {
				t.Error(left)
			}
		}
		if ends.Load() != 1001 || duplicates.Load() != 800 || without.Load() != 1000 {
			t.Errorf("observers saw %d ends, %d duplicates, %d acquisitions without a lease or an error", ends.Load(), duplicates.Load(), without.Load())
		}
	})
}

// Nothing is shared that is not on record: the next twin runs. And who wants the
// lock itself, under the same key, gets no record for it.
func TestTwinsOfWhatIsNotOnRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &ledgerSpy{Store: memstore.New()}
		eng := newEngine(t, store, core.WithTTL(2*time.Second))
		runs := 0
		run := func(context.Context) ([]byte, error) {
			runs++
			time.Sleep(time.Second)
			switch runs {
			case 1:
				return nil, errHandler
			case 2:
				store.fails.Store(true)
			case 3:
				store.fails.Store(false)
			}
			return []byte("third"), nil
		}
		var all sync.WaitGroup
		var duplicates, failed atomic.Int64
		locked := false
		for i := range 100 {
			all.Go(func() {
				if i == 50 {
					l := mustAcquire(t, eng, "k", core.WithMaxWait(core.Forever))
					locked = true
					mustRelease(t, l)
					return
				}
				out, err := eng.Once(context.Background(), "k", run, core.WithMaxWait(core.Forever))
				switch {
				case err != nil:
					failed.Add(1)
					if !errors.Is(err, errHandler) && !errors.Is(err, core.ErrOutcomeUnknown) {
						t.Error(err)
					}
				case out.Duplicate:
					duplicates.Add(1)
				}
			})
			synctest.Wait()
		}
		all.Wait()
		if runs != 3 || failed.Load() != 2 || duplicates.Load() != 96 || !locked {
			t.Errorf("%d runs, %d failed, %d duplicates, locked %v", runs, failed.Load(), duplicates.Load(), locked)
		}
	})
}
