package core_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
)

// The pauses between the probes of a store that was out grew to 2 s, so the first grant could come that
// much after the store was back, and later by a probe that was sent just before: 2.9 s after an outage of
// 10 s.
func TestServiceIsBackSoonAfterAnOutage(t *testing.T) {
	const most = 1600 * time.Millisecond // a probe of 1 s, for callers that wait so long, and a pause
	for out := 1100 * time.Millisecond; out < 12*time.Second; out += 700 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			spy, back := newSpy(), time.Now().Add(out)
			spy.onAcquire = func(ctx context.Context, _ driver.Request) error {
				if time.Now().Before(back) { // on a connection that stays dead
					<-ctx.Done()
					return errDown
				}
				return nil
			}
			eng := newEngine(t, spy, core.WithMaxWait(time.Second), core.WithLogger(discard))
			ctx, stop := context.WithCancel(bg)
			var served sync.Once
			var callers sync.WaitGroup
			for i := range 6 {
				callers.Go(func() {
					for ctx.Err() == nil {
						if l, err := eng.Acquire(ctx, fmt.Sprint("k", i)); err == nil {
							served.Do(func() {
								if late := time.Since(back); late > most {
									t.Errorf("after an outage of %v the first grant came %v late", out, late)
								}
								stop()
							})
							mustRelease(t, l)
						}
						time.Sleep(20 * time.Millisecond)
					}
				})
			}
			time.Sleep(out + 2*most)
			stop()
			callers.Wait()
			served.Do(func() { t.Errorf("after an outage of %v nothing is granted", out) })
		})
	}
}
