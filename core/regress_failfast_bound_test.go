package core_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
)

// A caller that does not wait for a holder does not wait for a silent store either, for
// as long as others would.
func TestFailFastIsBoundedByItself(t *testing.T) {
	for name, tc := range map[string]struct {
		opts []core.CallOption
		want time.Duration
	}{
		"by default":       {want: 5 * time.Second},
		"without a bound":  {opts: []core.CallOption{core.WithMaxWait(core.Forever)}, want: 5 * time.Second},
		"a shorter one":    {opts: []core.CallOption{core.WithMaxWait(time.Second)}, want: time.Second},
		"by its own words": {opts: []core.CallOption{policy(t, core.WithMaxWait(core.Forever)), core.WithFailFast()}, want: 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				spy := newSpy()
				spy.onAcquire = func(ctx context.Context, _ driver.Request) error { <-ctx.Done(); return errDown }
				eng := newEngine(t, spy)
				began := time.Now()
				_, err := eng.TryAcquire(context.Background(), "k", tc.opts...)
				wantOnly(t, err, core.ErrUnavailable)
				if took := time.Since(began); took != tc.want {
					t.Errorf("took %v, want %v", took, tc.want)
				}
			})
		})
	}
}
