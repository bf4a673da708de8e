package core_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/store/memstore"
)

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
		_, err = eng.AcquireAll(bg, exclusive("a", "b", "c"))
		wantOnly(t, err, core.ErrTooManyWaiters)
		mustRelease(t, holder)
		waiting.Wait()
		wantNothingLeft(t, eng)
	})
}
