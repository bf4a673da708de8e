package core_test

import (
	"context"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
)

// A caller that does not wait for a holder does not wait for a silent store either, for
// as long as others would. It has a bound of its own, or the maximum wait of a lower level if
// that is shorter.
func TestFailFastIsBoundedWhenTheStoreIsSilent(t *testing.T) {
	try := func(eng *core.Engine, opts ...core.CallOption) error {
		_, err := eng.TryAcquire(bg, "k", opts...)
		return err
	}
	acquire := func(eng *core.Engine, opts ...core.CallOption) error {
		_, err := eng.Acquire(bg, "k", opts...)
		return err
	}
	for name, tc := range map[string]struct {
		engine []core.EngineOption
		call   func(*core.Engine, ...core.CallOption) error
		opts   []core.CallOption
		want   time.Duration
	}{
		"by default":               {call: try, want: 5 * time.Second},
		"others without a bound":   {call: try, opts: []core.CallOption{core.WithMaxWait(core.Forever)}, want: 5 * time.Second},
		"a shorter bound":          {call: try, opts: []core.CallOption{core.WithMaxWait(time.Second)}, want: time.Second},
		"by option, none below":    {call: acquire, opts: []core.CallOption{policy(t, core.WithMaxWait(core.Forever)), core.WithFailFast()}, want: 5 * time.Second},
		"by option, the policy's":  {call: acquire, opts: []core.CallOption{policy(t, core.WithMaxWait(time.Second)), core.WithFailFast()}, want: time.Second},
		"by option, the engine's ": {engine: []core.EngineOption{core.WithMaxWait(2 * time.Second)}, call: acquire, opts: []core.CallOption{core.WithFailFast()}, want: 2 * time.Second},
	} {
		inBubble(t, name, func(t *testing.T) {
			spy := newSpy()
			spy.onAcquire = func(ctx context.Context, _ driver.Request) error { <-ctx.Done(); return errDown }
			eng := newEngine(t, spy, tc.engine...)
			began := time.Now()
			wantOnly(t, tc.call(eng, tc.opts...), core.ErrUnavailable)
			wantTook(t, began, tc.want)
		})
	}
}
