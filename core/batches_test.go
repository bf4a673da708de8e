package core_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
)

// Leases that are due at a time go in one batch, whichever shards they are in.
func TestOneBatchOverAllShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy, eng := newSpied(t, core.WithTTL(30*time.Second))
		var leases []*core.Lease
		for i := range 100 {
			leases = append(leases, mustAcquire(t, eng, fmt.Sprint("k", i)))
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(9500 * time.Millisecond) // the first is due 10 s after its grant, the last one joins
		check(t, spy.renewals() == 1 && len(spy.batches[0]) == 100, "%d batches, of %d leases the first", spy.renewals(), len(spy.batches[0]))
		for _, l := range leases {
			mustRelease(t, l)
		}
	})
}

// The store is asked for its parts, and may take a mutex of its own for the answer. A holder that holds that mutex must
// be able to ask about its lease meanwhile.
func TestPartsAreAskedForWithoutAMutex(t *testing.T) {
	var held atomic.Pointer[core.Lease]
	answered := make(chan bool, 100)
	eng := newEngine(t, described{newSpy(), func(d *driver.Description) {
		d.Partition = func(string) string {
			l := held.Load()
			if l == nil {
				return "" // it is being acquired; from then on, renewals ask
			}
			asked := make(chan struct{})
			go func() {
				_ = l.Deadline()
				close(asked)
			}()
			select {
			case <-asked:
				answered <- true
			case <-time.After(5 * time.Second):
				answered <- false
			}
			return ""
		}
	}}, core.WithTTL(time.Second))
	l := mustAcquire(t, eng, "k")
	held.Store(l)
	check(t, <-answered, "the lease's mutex was held while the parts of the store were asked for")
	mustRelease(t, l)
}

// Short leases on ever other keys, each shard's first ones among them, do not wake the watchdog for each.
func TestLooksAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wall := &core.Wall{}
		eng := newEngine(t, newSpy(), wall, core.WithTTL(30*time.Second))
		looks := int64(0)
		for i := range 5000 {
			mustRelease(t, mustAcquire(t, eng, fmt.Sprint("k", i)))
			before := wall.Looks.Load() // a caller that takes or ends a lease reads it as well
			time.Sleep(time.Millisecond)
			looks += wall.Looks.Load() - before
		}
		check(t, looks > 0 && looks <= 7*16, "%d looks in five seconds", looks)
		time.Sleep(5 * time.Second)
		before := wall.Looks.Load()
		time.Sleep(10 * time.Minute)
		wantEqual(t, "looks in ten minutes, at nothing", wall.Looks.Load()-before, 0)
	})
}

// A request that panics leaves the lease to the watchdog, as an unanswered one does.
func TestStorePanicsInAnExtension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy, eng := newSpied(t, core.WithTTL(30*time.Second))
		l := mustAcquire(t, eng, "k")
		spy.change(func() { spy.onRenew = func(context.Context, driver.Grant) error { panic("store") } })
		func() {
			defer func() { check(t, recover() != nil, "no panic") }()
			_ = l.Extend(bg, time.Minute)
		}()
		spy.change(func() { spy.onRenew = nil })
		time.Sleep(time.Minute)
		check(t, l.Err() == nil && spy.renewals() > 1, "%v after %d renewals", l.Err(), spy.renewals())
		mustRelease(t, l)
	})
}
