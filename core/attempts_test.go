package core_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
)

// How often the store was asked goes by its answers, and 0 says that there was no
// need to, or no way.
func TestAttempts(t *testing.T) {
	ctx := bg
	for name, tc := range map[string]struct {
		do   func(t *testing.T, eng, other *core.Engine, s *spy) error
		want int
		err  error
	}{
		"free": {do: func(_ *testing.T, eng, _ *core.Engine, _ *spy) error { return eng.Do(ctx, "k", noWork) }, want: 1},
		"told to wait, and granted": {do: func(t *testing.T, eng, other *core.Engine, _ *spy) error {
			l := mustAcquire(t, other, "k")
			time.AfterFunc(time.Second, func() { mustRelease(t, l) })
			return eng.Do(ctx, "k", noWork)
		}, want: 2},
		"told to wait three times, and no more": {do: func(t *testing.T, eng, other *core.Engine, s *spy) error {
			defer mustRelease(t, mustAcquire(t, other, "k"))
			s.onAcquire = func(_ context.Context, req driver.Request) error {
				req.OnHeld(core.HeldError{Key: "k"})
				req.OnHeld(core.HeldError{Key: "k"})
				return nil
			}
			return eng.Do(ctx, "k", noWork, core.WithMaxWait(time.Second))
		}, want: 3, err: core.ErrWaitTimeout},
		"a wait that ends in line": {do: func(t *testing.T, eng, _ *core.Engine, _ *spy) error {
			defer mustRelease(t, mustAcquire(t, eng, "k"))
			err := eng.Do(ctx, "k", noWork, core.WithMaxWait(time.Millisecond))
			if held := (*core.HeldError)(nil); !errors.As(err, &held) || !held.Local {
				t.Errorf("%#v is not said to be of the line", err)
			}
			return err
		}, err: core.ErrWaitTimeout},
		"nested": {do: func(t *testing.T, eng, _ *core.Engine, _ *spy) error {
			l := mustAcquire(t, eng, "k")
			defer mustRelease(t, l)
			return eng.Do(l.Context(), "k", noWork)
		}},
		"once, and what is forgotten and taken by force": {do: func(t *testing.T, eng, other *core.Engine, _ *spy) error {
			_, err := eng.Once(ctx, "k", nothing)
			if was, err := eng.Forget(ctx, "k", "a test"); err != nil || !was {
				t.Errorf("forgotten %v, error %v", was, err)
			}
			l := mustAcquire(t, other, "k")
			if holders, err := eng.ForceRelease(ctx, "k", "a test"); err != nil || len(holders) != 1 {
				t.Errorf("taken from %v, error %v", holders, err)
			}
			_ = l.Release(ctx)
			return err
		}, want: 1},
		"out, and run unlocked": {do: func(_ *testing.T, eng, _ *core.Engine, s *spy) error {
			s.onAcquire = func(context.Context, driver.Request) error { return errDown }
			return eng.Do(ctx, "k", noWork, core.WithRunUnlocked())
		}, want: 1},
		"handed off": {do: func(t *testing.T, eng, _ *core.Engine, _ *spy) error {
			l := mustAcquire(t, eng, "k")
			time.AfterFunc(time.Millisecond, func() { mustRelease(t, l) })
			return eng.Do(ctx, "k", noWork)
		}},
	} {
		inBubble(t, name, func(t *testing.T) {
			seen, s := &recorder{attempts: -1}, newSpy()
			eng := newEngine(t, s, core.WithHooks(seen.hooks(t, "")))
			if err := tc.do(t, eng, newEngine(t, s.Peer()), s); !errors.Is(err, tc.err) {
				t.Errorf("error %v, want %v", err, tc.err)
			}
			if seen.attempts != tc.want {
				t.Errorf("%d attempts, want %d", seen.attempts, tc.want)
			}
		})
	}
}
