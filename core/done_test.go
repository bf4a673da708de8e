package core_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
)

func isDone(l *core.Lease) bool {
	select {
	case <-l.Done():
		return true
	default:
		return false
	}
}

func TestDone(t *testing.T) {
	for name, tc := range map[string]struct {
		opts []core.CallOption
		end  func(t *testing.T, spy *spy, l *core.Lease)
		open bool
	}{
		"released": {end: func(t *testing.T, _ *spy, l *core.Lease) { mustRelease(t, l) }},
		"lost":     {end: func(t *testing.T, spy *spy, l *core.Lease) { breakLock(t, spy, l); time.Sleep(defaultTTL) }},
		"lost, while its context goes on": {
			opts: []core.CallOption{core.WithoutCancelOnLoss()},
			end: func(t *testing.T, spy *spy, l *core.Lease) {
				breakLock(t, spy, l)
				time.Sleep(defaultTTL)
				if l.Context().Err() != nil {
					t.Error("the context has ended")
				}
			},
		},
		"max hold": {opts: []core.CallOption{core.WithMaxHold(time.Minute)}, end: func(*testing.T, *spy, *core.Lease) { time.Sleep(time.Minute) }},
		"in force": {end: func(*testing.T, *spy, *core.Lease) { time.Sleep(time.Minute) }, open: true},
		"a release unanswered": {end: func(t *testing.T, spy *spy, l *core.Lease) {
			spy.change(func() { spy.onRelease = func(context.Context, driver.Grant) error { return errDown } })
			_ = l.Release(bg)
			spy.change(func() { spy.onRelease = nil })
		}},
	} {
		for _, early := range []bool{true, false} {
			inBubble(t, name, func(t *testing.T) {
				spy := newSpy()
				l := mustAcquire(t, newEngine(t, spy), "k", tc.opts...)
				ended := make(chan struct{})
				if early {
					if isDone(l) {
						t.Error("closed from the start")
					}
					go func() { <-l.Done(); close(ended) }()
				}
				tc.end(t, spy, l)
				synctest.Wait()
				if isDone(l) == tc.open {
					t.Errorf("closed: %v", !tc.open)
				}
				_ = l.Release(bg)
				if !isDone(l) {
					t.Error("not closed by its release")
				}
				if early {
					<-ended
				}
			})
		}
	}
}

func TestDoneOfNestedLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy := newSpy()
		eng := newEngine(t, spy)
		outer := mustAcquire(t, eng, "k", core.WithoutCancelOnLoss())
		nest := func() *core.Lease {
			l, err := eng.Acquire(outer.Context(), "k")
			must(t, err)
			return l
		}
		first, second, unasked := nest(), nest(), nest()
		if isDone(first) || isDone(second) {
			t.Error("closed from the start")
		}
		mustRelease(t, first)
		if !isDone(first) || isDone(second) || isDone(outer) {
			t.Errorf("after the release of the first: %v %v %v", isDone(first), isDone(second), isDone(outer))
		}
		breakLock(t, spy, outer)
		time.Sleep(defaultTTL)
		if !isDone(second) || !isDone(outer) || !isDone(unasked) || !isDone(first) {
			t.Error("not closed by the loss of the outer one")
		}
		for _, l := range []*core.Lease{second, unasked, outer} {
			wantOnly(t, l.Release(bg), core.ErrLeaseLost)
		}
	})
}
