package core_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
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
		if ran != 2*calls {
			t.Errorf("%d functions ran", ran)
		}
		s.change(func() { s.onAcquire = nil })
	})
}
