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
	"github.com/keyturn/keyturn/core/observe"
)

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
			if granted.Load() < 100 || refused.Load() < 100 {
				t.Errorf("%d granted, %d refused: that shows little", granted.Load(), refused.Load())
			}
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
