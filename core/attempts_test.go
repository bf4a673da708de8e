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
