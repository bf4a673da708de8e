package core_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/locktest"
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

// TestReleaseEarly: a function gives the key back and goes on in its context.
func TestReleaseEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		early := 0
		kit := locktest.New(t, core.WithHooks(observe.Hooks{HoldEnd: func(_ context.Context, l observe.Lease, err error) {
			if l.Early() && err == nil {
				early++
			}
		}}))
		eng, ctx := kit.Engine, bg
		own := errors.New("own")
		var after context.Context
		err := eng.Do(ctx, "k", func(ctx context.Context) error {
			lease, _ := core.LeaseFrom(ctx)
			token := lease.Token()
			for range 2 { // the second call does no harm
				wantNil(t, core.ReleaseEarly(ctx))
			}
			if ctx.Err() != nil || lease.Token() != token || core.AssertHeld(ctx, core.Exclusive("k")) == nil || !errors.Is(lease.Err(), core.ErrReleased) {
				t.Errorf("context %v, token %d, lease %v", ctx.Err(), lease.Token(), lease.Err())
			}
			other, err := kit.Peer(t).Engine.TryAcquire(bg, "k")
			if err != nil || other.Token() <= token {
				t.Errorf("another process: %v", err)
			}
			time.Sleep(5 * time.Minute) // longer than the lease
			if ctx.Err() != nil {
				t.Errorf("the context ended: %v", context.Cause(ctx))
			}
			wantNil(t, other.Release(bg))
			if err := eng.Do(ctx, "k", noWork); err != nil { // takes the key anew
				t.Error(err)
			}
			after = ctx
			return own
		})
		if err != own || early != 1 {
			t.Errorf("%v, %d early ends", err, early)
		}
		if !errors.Is(context.Cause(after), core.ErrReleased) {
			t.Errorf("at the end: %v", context.Cause(after))
		}
	})
}

// TestReleaseEarlyOfALostLease says so, and so does the end.
func TestReleaseEarlyOfALostLease(t *testing.T) {
	kit := locktest.New(t)
	err := kit.Engine.Do(t.Context(), "k", func(ctx context.Context) error {
		kit.Store.Lose("k")
		wantOnly(t, core.ReleaseEarly(ctx), core.ErrLeaseLost)
		return nil
	})
	wantOnly(t, err, core.ErrLeaseLost)
}

// TestReleaseEarlyUnanswered: the end does not wait for the silent store once more.
func TestReleaseEarlyUnanswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kit := locktest.New(t)
		defer kit.Store.Heal()
		var began time.Time
		err := kit.Engine.Do(t.Context(), "k", func(ctx context.Context) error {
			kit.Store.Hang()
			wantOnly(t, core.ReleaseEarly(ctx), core.ErrOutcomeUnknown, core.ErrUnavailable)
			began = time.Now()
			return nil
		})
		if waited := time.Since(began); err != nil || waited > 0 {
			t.Errorf("Do: %v, %v after its function", err, waited)
		}
	})
}

// TestReleaseEarlyInOnce is refused: without the lease there would be no record.
func TestReleaseEarlyInOnce(t *testing.T) {
	eng := locktest.New(t).Engine
	_, err := eng.Once(t.Context(), "k", func(ctx context.Context) ([]byte, error) {
		wantOnly(t, core.ReleaseEarly(ctx), errors.ErrUnsupported)
		return nil, nil
	})
	wantNil(t, err)
	wantNil(t, core.ReleaseEarly(t.Context()))
}

// TestReleaseEarlyBeforeAPanic: the context ends all the same.
func TestReleaseEarlyBeforeAPanic(t *testing.T) {
	eng := locktest.New(t).Engine
	var after context.Context
	func() {
		defer func() { _ = recover() }()
		_ = eng.Do(t.Context(), "k", func(ctx context.Context) error {
			after = ctx
			_ = core.ReleaseEarly(ctx)
			panic("oops")
		})
	}()
	if after.Err() == nil {
		t.Error("the context goes on")
	}
}
