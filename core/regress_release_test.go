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

// Close sent the release of each lease that was still held, also when its time was over: 20 000 of
// them took 7 s more than it promises, because a store needs a moment to give each up.
func TestCloseEndsInTimeHoweverManyAreHeld(t *testing.T) {
	const many, timeout = 2_000, 5 * time.Second
	for name, releasing := range map[string]bool{"held": false, "under way": true} {
		inBubble(t, name, func(t *testing.T) {
			s := newSpy()
			eng := open(t, s, core.WithReleaseTimeout(timeout))
			leases := make([]*core.Lease, many)
			for i := range leases {
				leases[i] = mustAcquire(t, eng, fmt.Sprint(i))
			}
			s.change(func() {
				s.onRelease = func(ctx context.Context, _ driver.Grant) error {
					<-ctx.Done()
					time.Sleep(10 * time.Millisecond)
					return errDown
				}
			})
			var all sync.WaitGroup
			for _, l := range leases {
				if releasing {
					all.Go(func() { wantOnly(t, l.Release(bg), core.ErrOutcomeUnknown, core.ErrUnavailable) })
				}
			}
			synctest.Wait()
			began := time.Now()
			ctx, cancel := context.WithTimeout(bg, time.Second)
			defer cancel()
			if err := eng.Close(ctx); err == nil {
				t.Error("Close knows of nothing")
			}
			if took := time.Since(began); took > time.Second+timeout+20*time.Millisecond {
				t.Errorf("closed after %v", took)
			}
			all.Wait()
		})
	}
}

// Close hung for ever with a call to the store that did not return, such as one in a hook of the store's
// client.
func TestCloseDoesNotHangWithTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 5 * time.Second
		s := newSpy()
		goOn := make(chan struct{})
		s.change(func() {
			s.onAcquire = func(context.Context, driver.Request) error {
				<-goOn
				return errDown
			}
		})
		eng, err := core.New(s, core.WithReleaseTimeout(timeout))
		must(t, err)
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := eng.Acquire(bg, "k"); err == nil {
				t.Error("a lease of a closed engine")
			}
		})
		synctest.Wait()
		began := time.Now()
		ctx, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		wantOnly(t, eng.Close(ctx), core.ErrUnavailable)
		if took := time.Since(began); took > time.Second+timeout {
			t.Errorf("closed after %v", took)
		}
		close(goOn)
		all.Wait()
	})
}

// A store that hung while it was asked to release carried the release out when the
// lease had run out, and said "not yours". Do then reported a lost lease, although its
// work was done in time: a task was run again, a call was answered with ABORTED.
func TestReleaseAnsweredAfterTheLeaseRanOutIsNoLoss(t *testing.T) {
	const ttl = 3 * time.Second
	for name, tc := range map[string]struct {
		hang           time.Duration
		done, released error
	}{
		"after the lease's end": {ttl + time.Second, nil, core.ErrOutcomeUnknown},
		"before it":             {ttl / 10, core.ErrLeaseLost, core.ErrLeaseLost},
	} {
		inBubble(t, name, func(t *testing.T) {
			spy, eng := newSpied(t, core.WithTTL(ttl))
			spy.onRelease = func(context.Context, driver.Grant) error { time.Sleep(tc.hang); return core.ErrLeaseLost }
			wantIs(t, "Do", eng.Do(bg, "k", func(context.Context) error { time.Sleep(ttl / 6); return nil }), tc.done)
			l := mustAcquire(t, eng, "other")
			for range 2 {
				wantOnly(t, l.Release(bg), tc.released)
			}
		})
	}
}
