package core_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
)

// rueidis#602, rueidis#372: a waiter asked again and again while it waited for
// its turn to be announced. Here a whole line sends one request, however long it
// waits.
func TestWaitersDoNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy := newSpy()
		var asked atomic.Int64
		spy.onAcquire = func(context.Context, driver.Request) error { asked.Add(1); return nil }
		eng := newEngine(t, spy, core.WithMaxHold(core.Forever), core.WithMaxWait(core.Forever))
		holder := mustAcquire(t, eng, "k")
		granted := make(chan *core.Lease)
		for range 10 {
			go func() { granted <- mustAcquire(t, eng, "k") }()
		}
		time.Sleep(time.Hour)
		if n := asked.Load(); n != 2 { // the holder's, and the first waiter's
			t.Errorf("%d requests", n)
		}
		mustRelease(t, holder)
		for range 10 {
			mustRelease(t, <-granted)
		}
		if n := asked.Load(); n > 11 { // fewer: the lease goes from hand to hand
			t.Errorf("%d requests for 11 leases", n)
		}
	})
}
