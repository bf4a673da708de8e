package core_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/locktest"
)

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
