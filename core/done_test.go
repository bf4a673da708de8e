package core_test

import (
	"context"
	"errors"
	"sync"
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
	released := func(t *testing.T, _ *spy, l *core.Lease) { mustRelease(t, l) }
	lost := func(t *testing.T, spy *spy, l *core.Lease) { breakLock(t, spy, l); time.Sleep(defaultTTL) }
	passes := func(*testing.T, *spy, *core.Lease) { time.Sleep(time.Minute) }
	for name, tc := range map[string]struct {
		opts []core.CallOption
		end  func(t *testing.T, spy *spy, l *core.Lease)
	}{
		"released":                        {end: released},
		"lost":                            {end: lost},
		"lost, while its context goes on": {opts: []core.CallOption{core.WithoutCancelOnLoss()}, end: lost},
		"max hold":                        {opts: []core.CallOption{core.WithMaxHold(time.Minute)}, end: passes},
		"a release unanswered": {end: func(_ *testing.T, spy *spy, l *core.Lease) {
			spy.change(func() { spy.onRelease = func(context.Context, driver.Grant) error { return errDown } })
			_ = l.Release(bg)
			spy.mend()
		}},
	} {
		for _, early := range []bool{true, false} {
			inBubble(t, name, func(t *testing.T) {
				spy, eng := newSpied(t)
				l := mustAcquire(t, eng, "k", tc.opts...)
				var waiting sync.WaitGroup
				if early {
					check(t, !isDone(l), "closed from the start")
					waiting.Go(func() { <-l.Done() })
				}
				tc.end(t, spy, l)
				synctest.Wait()
				check(t, isDone(l), "not closed")
				_ = l.Release(bg)
				waiting.Wait()
			})
		}
	}
}

func TestDoneOfNestedLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy, eng := newSpied(t)
		outer := mustAcquire(t, eng, "k", core.WithoutCancelOnLoss())
		first, second, unasked := within(t, eng, outer), within(t, eng, outer), within(t, eng, outer)
		check(t, !isDone(first) && !isDone(second), "closed from the start")
		told := second.Done()
		mustRelease(t, first)
		check(t, isDone(first) && !isDone(second) && !isDone(outer), "the release of the first ended that one: %v", isDone(first))
		breakLock(t, spy, outer)
		time.Sleep(defaultTTL)
		select {
		case <-told:
		default:
			t.Error("a caller that waited is not told of the loss of the outer one")
		}
		for _, l := range []*core.Lease{second, unasked, outer} {
			check(t, isDone(l), "not closed by the loss of the outer one")
			wantOnly(t, l.Release(bg), core.ErrLeaseLost)
		}
	})
}

// TestReleaseEarly: a function gives the key back and goes on in its context.
func TestReleaseEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		early, own := 0, errors.New("own")
		kit := locktest.New(t, core.WithHooks(observe.Hooks{HoldEnd: func(_ context.Context, l observe.Lease, err error) {
			if l.Early() && err == nil {
				early++
			}
		}}))
		var after context.Context
		err := kit.Engine.Do(bg, "k", func(ctx context.Context) error {
			after = ctx
			lease, _ := core.LeaseFrom(ctx)
			token := lease.Token()
			for range 2 { // the second call does no harm
				wantNil(t, core.ReleaseEarly(ctx))
			}
			wantOnly(t, lease.Err(), core.ErrReleased)
			wantOnly(t, core.AssertHeld(ctx, core.Exclusive("k")), core.ErrReleased)
			check(t, ctx.Err() == nil && lease.Token() == token, "context %v, token %d", ctx.Err(), lease.Token())
			other, err := kit.Peer(t).Engine.TryAcquire(bg, "k")
			check(t, err == nil && other.Token() > token, "another process: %v", err)
			time.Sleep(5 * time.Minute) // longer than the lease
			wantNil(t, ctx.Err())
			wantNil(t, other.Release(bg))
			wantNil(t, kit.Engine.Do(ctx, "k", noWork)) // takes the key anew
			return own
		})
		check(t, err == own && early == 1 && errors.Is(context.Cause(after), core.ErrReleased), "%v, %d early ends, at the end: %v", err, early, context.Cause(after))
	})
}

// TestReleaseEarlyThatFails says so. The end of the function says it again, waits no more for a silent store, and
// ends the context, also in a panic.
func TestReleaseEarlyThatFails(t *testing.T) {
	for name, tc := range map[string]struct {
		fail   func(*locktest.Kit)
		early  []error
		end    error
		panics bool
		within []string // what its context holds already
	}{
		"lost":                       {fail: func(k *locktest.Kit) { k.Store.Lose("k") }, early: []error{core.ErrLeaseLost}, end: core.ErrLeaseLost},
		"silent":                     {fail: func(k *locktest.Kit) { k.Store.Hang() }, early: []error{core.ErrOutcomeUnknown, core.ErrUnavailable}},
		"part of it is held, silent": {fail: func(k *locktest.Kit) { k.Store.Hang() }, early: []error{core.ErrOutcomeUnknown, core.ErrUnavailable}, within: []string{"outer"}},
		"panicked":                   {fail: func(*locktest.Kit) {}, panics: true},
	} {
		inBubble(t, name, func(t *testing.T) {
			kit, ctx := locktest.New(t), bg
			for _, key := range tc.within {
				outer := mustAcquire(t, kit.Engine, key)
				defer mustRelease(t, outer)
				ctx = outer.Context()
			}
			defer kit.Store.Heal()
			var after context.Context
			var began time.Time
			func() {
				defer func() { _ = recover() }()
				err := kit.Engine.DoAll(ctx, exclusive(append(tc.within, "k")...), func(ctx context.Context) error {
					tc.fail(kit)
					wantOnly(t, core.ReleaseEarly(ctx), tc.early...)
					after, began = ctx, time.Now()
					if tc.panics {
						panic("oops")
					}
					return nil
				})
				wantIs(t, "Do", err, tc.end)
			}()
			waited := time.Since(began)
			check(t, waited == 0 && after.Err() != nil, "%v after its function; context: %v", waited, after.Err())
		})
	}
}

// TestReleaseEarlyOfParts: the context goes on, though some of its keys, or all, are held here or in another process. It
// ends with its function or with Release.
func TestReleaseEarlyOfParts(t *testing.T) {
	two := callerHolds(t, exclusive("a"))
	defer mustRelease(t, two.outer)
	do := func(eng *core.Engine, under context.Context, keys ...string) {
		t.Helper()
		var ctx context.Context
		wantNil(t, eng.DoAll(under, exclusive(keys...), func(inner context.Context) error {
			ctx = inner
			wantNil(t, core.ReleaseEarly(ctx))
			isFree(t, eng, "b")
			return ctx.Err()
		}))
		l, err := eng.AcquireAll(under, exclusive(keys...))
		must(t, err)
		attached, cancel := l.Attach(bg)
		defer cancel()
		wantNil(t, errors.Join(core.ReleaseEarly(l.Context()), l.Context().Err(), attached.Err()))
		mustRelease(t, l)
		for _, ctx := range []context.Context{ctx, l.Context(), attached} {
			wantOnly(t, context.Cause(ctx), core.ErrReleased)
		}
	}
	do(two.callee, bg, "b")
	do(two.caller, two.outer.Context(), "a", "b")
	do(two.callee, two.ctx, "a", "b")
	do(two.callee, two.ctx, "a")
}

// TestReleaseEarlyInOnce is refused, and so is Downgrade: without the lease there would be no record.
func TestReleaseEarlyInOnce(t *testing.T) {
	eng := locktest.New(t).Engine
	_, err := eng.Once(t.Context(), "k", func(ctx context.Context) ([]byte, error) {
		lease, _ := core.LeaseFrom(ctx)
		wantOnly(t, lease.Downgrade(ctx), errors.ErrUnsupported)
		wantOnly(t, core.ReleaseEarly(ctx), errors.ErrUnsupported)
		return nil, nil
	})
	wantNil(t, err)
	wantNil(t, core.ReleaseEarly(t.Context()))
}
