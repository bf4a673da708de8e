package core_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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
			check(t, asked.Load() == most && unrehearsed.Load() == calls-most, "round %d: %d rehearsals under way, %d calls not rehearsed", round, asked.Load(), unrehearsed.Load())
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
	try := func(eng *core.Engine, opts ...core.CallOption) error { return errOf(eng.TryAcquire(bg, "k", opts...)) }
	acquire := func(eng *core.Engine, opts ...core.CallOption) error { return errOf(eng.Acquire(bg, "k", opts...)) }
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
			spy, eng := newSpied(t, tc.engine...)
			spy.onAcquire = func(ctx context.Context, _ driver.Request) error { <-ctx.Done(); return errDown }
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
				wantFull(t, errOf(eng.Acquire(bg, name)), "", total) // the second is one too many
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

// Whatever is asked for in whatever order by two processes, by callers who give
// up at any time: nobody holds what another excludes, and nothing is left.
func TestModesInAnyOrder(t *testing.T) {
	type request struct {
		claims []core.Claim
		weight map[string]int // of what it holds: 100 is all of a key
	}
	requests := []request{
		{exclusive("g"), map[string]int{"g": 100, "g/a": 100, "g/b": 100}},
		{core.Under("g", "a"), map[string]int{"g/a": 100}},
		{core.Under("g", "b"), map[string]int{"g/b": 100}},
		{[]core.Claim{core.Shared("g")}, map[string]int{"g": 1}},
		{[]core.Claim{core.Permit("p", 4)}, map[string]int{"p": 25}},
		{append(core.Under("g", "a"), core.Permit("p", 4)), map[string]int{"g/a": 100, "p": 25}},
		{[]core.Claim{core.Shared("g"), core.Exclusive("p")}, map[string]int{"g": 1, "p": 100}},
		{exclusive("p"), map[string]int{"p": 100}},
	}
	for round := range 5 {
		inBubble(t, fmt.Sprint(round), func(t *testing.T) {
			near := newSpy()
			far := near.peer()
			near.onAcquire, far.onAcquire = taking(time.Millisecond), taking(2*time.Millisecond)
			engines := []*core.Engine{
				newEngine(t, near, nothingUnlocked(t)), newEngine(t, far, nothingUnlocked(t)),
			}
			var mu sync.Mutex
			inside := map[string]int{}
			change := func(r request, by int) {
				mu.Lock()
				defer mu.Unlock()
				for key, w := range r.weight {
					if inside[key] += by * w; inside[key] > 100 {
						t.Errorf("%d hundredths of %s are held with %v", inside[key], key, r.claims)
					}
				}
			}
			var granted, refused atomic.Int64
			var all sync.WaitGroup
			for i := range 80 {
				all.Go(func() {
					for range 20 {
						time.Sleep(rand.N(20 * time.Millisecond))
						ctx, giveUp := context.WithCancel(bg)
						if rand.N(4) == 0 {
							time.AfterFunc(rand.N(100*time.Millisecond), giveUp)
						}
						r := requests[rand.N(len(requests))]
						err := engines[i%2].DoAll(ctx, r.claims, func(context.Context) error {
							change(r, 1)
							time.Sleep(rand.N(10 * time.Millisecond))
							change(r, -1)
							return nil
						}, core.WithMaxWait(1+rand.N(2*time.Second)), core.WithRunUnlocked())
						giveUp()
						switch {
						case err == nil:
							granted.Add(1)
						case errors.Is(err, core.ErrWaitTimeout), errors.Is(err, context.Canceled),
							errors.Is(err, core.ErrUnavailable): // there was no time for an answer
							refused.Add(1)
						default:
							t.Error(err)
						}
					}
				})
			}
			all.Wait()
			check(t, granted.Load() >= 100 && refused.Load() >= 100, "%d granted, %d refused: that shows little", granted.Load(), refused.Load())
			synctest.Wait()
			for _, key := range []string{"g", "g/a", "g/b", "p"} {
				isFree(t, engines[0], key)
			}
			wantNothingLeft(t, engines...)
		})
	}
}

// nothingUnlocked minds when work runs without its lock.
func nothingUnlocked(t testing.TB) core.EngineOption {
	return core.WithHooks(observe.Hooks{Unlocked: func(_ context.Context, a observe.Acquisition, err error) {
		t.Errorf("%v runs unlocked: %v", a.Claims, err)
	}})
}
