package core_test

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
)

func open(t *testing.T, store driver.Store, opts ...core.EngineOption) *core.Engine {
	t.Helper()
	eng, err := core.New(store, opts...)
	must(t, err)
	return eng
}

// The books are kept by key: Close waits for the last holder of the last key.
func TestCloseTakesNoMoreAndSendsWaitersHome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys, hold = 200, 5 * time.Second
		spy := newSpy()
		eng := open(t, spy)
		began := time.Now()
		for i := range keys {
			l := mustAcquire(t, eng, strconv.Itoa(i))
			time.AfterFunc(hold+time.Duration(i)*time.Millisecond, func() { mustRelease(t, l) })
		}
		var all sync.WaitGroup
		var home atomic.Int32
		for range 3 {
			all.Go(func() {
				wantOnly(t, errOf(eng.Acquire(bg, "7", core.WithMaxWait(core.Forever))), core.ErrClosed)
				home.Add(1)
			})
		}
		synctest.Wait()
		all.Go(func() { shut(t, eng) })
		synctest.Wait()
		check(t, home.Load() == 3, "who waits is sent home when the holder is done, not at once")
		wantOnly(t, errOf(eng.Acquire(bg, "free")), core.ErrClosed)
		soon := callerFor(t, time.Second, 0)
		wantOnly(t, eng.Close(soon), context.DeadlineExceeded) // a second one has its own bound, and leaves the first its time
		shut(t, eng)                                           // and waits for the first
		wantTook(t, began, hold+(keys-1)*time.Millisecond)
		all.Wait()
		wantEqual(t, "ends of the store", spy.closed, 1)
		spy.onAcquire = func(context.Context, driver.Request) error { t.Error("a closed store was asked"); return nil }
		wantOnly(t, eng.Do(bg, "k", noWork), core.ErrClosed)
		for range 20 {
			must(t, eng.Close(soon)) // the first one's answer, although its own time is over
		}
	})
}

// A caller may ask before the engine closes, and come to the line afterwards. There it would wait for a holder,
// for whom the engine waits, too.
func TestCloseBeforeTheCallerIsInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng := open(t, newSpy(), core.WithHooks(observe.Hooks{AcquireStart: func(ctx context.Context, _ observe.Acquisition) context.Context {
			time.Sleep(time.Second)
			return ctx
		}}))
		holder := mustAcquire(t, eng, "k")
		var all sync.WaitGroup
		began := time.Now()
		all.Go(func() {
			wantOnly(t, errOf(eng.Acquire(bg, "k", core.WithMaxWait(core.Forever))), core.ErrClosed)
			wantTook(t, began, time.Second)
			mustRelease(t, holder)
		})
		synctest.Wait()
		all.Go(func() { shut(t, eng) })
		all.Wait()
	})
}

func TestCloseRevokesWhatIsHeldInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy := newSpy()
		eng := open(t, badEnd{spy})
		var leases []*core.Lease
		for _, k := range []string{"a", "b", "c"} {
			leases = append(leases, mustAcquire(t, eng, k))
		}
		err := eng.Close(callerFor(t, 2*time.Second, 0))
		wantOnly(t, err, context.DeadlineExceeded, core.ErrUnavailable) // which is the store's
		for _, l := range leases {
			wantOnly(t, context.Cause(l.Context()), core.ErrLeaseLost, core.ErrClosed)
			wantOnly(t, l.Release(bg), core.ErrLeaseLost, core.ErrClosed)
		}
		wantEqual(t, "leases given back", len(spy.released), 3)
		wantEqual(t, "a second Close says", eng.Close(bg), err)
	})
}

// Close returns when nothing of the engine runs any more: here a renewal, which
// takes its time to end.
func TestCloseWaitsForRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy := newSpy()
		renewing := false
		spy.onRenew = func(ctx context.Context, _ driver.Grant) error {
			renewing = true
			<-ctx.Done()
			time.Sleep(100 * time.Millisecond)
			renewing = false
			return errDown
		}
		eng := open(t, spy)
		l := mustAcquire(t, eng, "k")
		time.Sleep(defaultTTL/3 + time.Second)
		mustRelease(t, l)
		shut(t, eng)
		check(t, !renewing, "still renewing")
	})
}

// badEnd can't be closed well.
type badEnd struct{ *spy }

func (badEnd) Close() error { return errDown }

// A grant that arrives while the engine closes is given back, and Close waits
// for that, also when its own time is over.
func TestGrantDuringClose(t *testing.T) {
	for name, closing := range map[string]time.Duration{"in time": 0, "time over": -1} {
		inBubble(t, name, func(t *testing.T) {
			late := lateBy(time.Second)
			eng := open(t, late)
			var asking sync.WaitGroup
			asking.Go(func() { wantOnly(t, errOf(eng.Acquire(bg, "k")), core.ErrClosed) })
			synctest.Wait()
			wantNil(t, eng.Close(callerFor(t, 0, closing)))
			check(t, len(late.released) == 1 && eng.Left() == "", "%d given back; %s", len(late.released), eng.Left())
			asking.Wait()
		})
	}
}
