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

// While a store hung, each call of a shadow rule left a goroutine behind. At 20 000 calls per second
// they were 61 000 with 1.2 GiB.
func TestRehearsalsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const calls, most = 6000, 5000
		var asked, unrehearsed atomic.Int32
		s := newSpy()
		s.onAcquire = func(ctx context.Context, _ driver.Request) error {
			asked.Add(1)
			<-ctx.Done()
			return errDown
		}
		eng := newEngine(t, s, core.WithCircuit(core.Forever), core.WithHooks(observe.Hooks{AcquireEnd: func(_ context.Context, a observe.Acquisition, _ observe.Lease, err error) {
			if errors.Is(err, observe.ErrNotRehearsed) && a.Shadow && len(a.Claims) == 1 {
				unrehearsed.Add(1)
			}
		}}))
		ran := 0
		for round := range 2 {
			asked.Store(0)
			unrehearsed.Store(0)
			for i := range calls {
				must(t, eng.Do(bg, fmt.Sprint(i), func(context.Context) error { ran++; return nil }, core.WithShadow()))
			}
			synctest.Wait()
			if asked.Load() != most || unrehearsed.Load() != calls-most {
				t.Errorf("round %d: %d rehearsals under way, %d calls not rehearsed", round, asked.Load(), unrehearsed.Load())
			}
			time.Sleep(time.Minute) // the rehearsals end
		}
		wantEqual(t, "functions ran", ran, 2*calls)
		s.change(func() { s.onAcquire = nil })
	})
}

// A caller that does not wait for a holder does not wait for a silent store either, for
// as long as others would. It has a bound of its own, or the maximum wait of a lower level if
// that is shorter.
func TestFailFastIsBoundedWhenTheStoreIsSilent(t *testing.T) {
	try := func(eng *core.Engine, opts ...core.CallOption) error {
		_, err := eng.TryAcquire(bg, "k", opts...)
		return err
	}
	acquire := func(eng *core.Engine, opts ...core.CallOption) error {
		_, err := eng.Acquire(bg, "k", opts...)
		return err
	}
	for name, tc := range map[string]struct {
		engine []core.EngineOption
		call   func(*core.Engine, ...core.CallOption) error
		opts   []core.CallOption
		want   time.Duration
	}{
		"by default":               {call: try, want: 5 * time.Second},
		"others without a bound":   {call: try, opts: []core.CallOption{core.WithMaxWait(core.Forever)}, want: 5 * time.Second},
		"a shorter bound":          {call: try, opts: []core.CallOption{core.WithMaxWait(time.Second)}, want: time.Second},
		"by option, none below":    {call: acquire, opts: []core.CallOption{policy(t, core.WithMaxWait(core.Forever)), core.WithFailFast()}, want: 5 * time.Second},
		"by option, the policy's":  {call: acquire, opts: []core.CallOption{policy(t, core.WithMaxWait(time.Second)), core.WithFailFast()}, want: time.Second},
		"by option, the engine's ": {engine: []core.EngineOption{core.WithMaxWait(2 * time.Second)}, call: acquire, opts: []core.CallOption{core.WithFailFast()}, want: 2 * time.Second},
	} {
		inBubble(t, name, func(t *testing.T) {
			spy := newSpy()
			spy.onAcquire = func(ctx context.Context, _ driver.Request) error { <-ctx.Done(); return errDown }
			eng := newEngine(t, spy, tc.engine...)
			began := time.Now()
			wantOnly(t, tc.call(eng, tc.opts...), core.ErrUnavailable)
			wantTook(t, began, tc.want)
		})
	}
}

// Ten keys with ten thousand waiters each had the callers of every other key
// refused with "100000 callers wait already", also where nobody held the key.
func TestFloodOnSomeKeysLeavesTheOthersAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const floods, line, total = 10, 10, 50
		store := memstore.New()
		eng := newEngine(t, store, core.WithMaxWaiters(line), core.WithMaxWaitersTotal(total), core.WithMaxWait(time.Minute))
		other := newEngine(t, store.Peer()) // another process
		var holders []*core.Lease
		var waiting sync.WaitGroup
		for i := range floods {
			key := fmt.Sprint("flooded", i)
			holders = append(holders, mustAcquire(t, eng, key))
			for range 2 * line {
				waiting.Go(func() {
					if err := eng.Do(bg, key, noWork); err != nil {
						wantOnly(t, err, core.ErrTooManyWaiters)
					}
				})
			}
		}
		synctest.Wait() // the lines are full, and all of them together are
		mustRelease(t, acquireAll(t, eng, core.Exclusive("a"), core.Shared("b"), core.Permit("c", 3)))
		for name, who := range map[string]*core.Engine{"here": eng, "there": other} { // the first in line waits
			held, granted := mustAcquire(t, who, name), make(chan *core.Lease)
			go func() { granted <- mustAcquire(t, eng, name) }()
			synctest.Wait()
			if name == "here" {
				_, err := eng.Acquire(bg, name)
				wantOnly(t, err, core.ErrTooManyWaiters) // the second is one too many
			}
			mustRelease(t, held)
			mustRelease(t, <-granted)
		}
		// With a flooded key in the set it is refused, and has kept nothing.
		wantOnly(t, eng.DoAll(bg, exclusive("a", "flooded0"), noWork), core.ErrTooManyWaiters)
		isFree(t, eng, "a")
		for _, l := range holders {
			mustRelease(t, l)
		}
		waiting.Wait()
		wantNothingLeft(t, eng)
	})
}

// A caller that wants a set waits in one line at a time, and counts once.
func TestSetCountsAsOneWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng := newEngine(t, memstore.New(), core.WithMaxWaitersTotal(2))
		holder, err := eng.AcquireAll(bg, exclusive("a", "b", "c"))
		must(t, err)
		var waiting sync.WaitGroup
		for range 3 { // the first of them asks the store
			waiting.Go(func() {
				wantNil(t, eng.DoAll(bg, exclusive("a", "b", "c"), noWork))
			})
			synctest.Wait()
		}
		wantOnly(t, errOf(eng.AcquireAll(bg, exclusive("a", "b", "c"))), core.ErrTooManyWaiters)
		mustRelease(t, holder)
		waiting.Wait()
		wantNothingLeft(t, eng)
	})
}
