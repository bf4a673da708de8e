package core_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
)

// rude panics when it is told that an acquisition is over.
type rude struct{ core.NopObserver }

func (rude) AcquireEnd(context.Context, core.Acquisition, *core.Lease, error) { panic("observer") }

// A lease that was granted, and that an observer's panic kept from its caller,
// would be renewed until its max hold: nobody has it to release it.
func TestObserverThatPanicsLeavesNoLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy := newSpy()
		eng := newEngine(t, spy, core.WithObserver(rude{}))
		func() {
			defer func() {
				if recover() != "observer" {
					t.Error("the panic does not reach the caller")
				}
			}()
			_, _ = eng.Acquire(context.Background(), "k")
		}()
		if len(spy.released) != 1 {
			t.Error("the lease was not released")
		}
		isFree(t, newEngine(t, spy.Peer()), "k")
	})
}

// Who does not wait for a holder does not wait for a silent store either, for
// as long as others would.
func TestFailFastIsBoundedByItself(t *testing.T) {
	for name, tc := range map[string]struct {
		opts []core.CallOption
		want time.Duration
	}{
		"by default":       {want: 5 * time.Second},
		"without a bound":  {opts: []core.CallOption{core.WithMaxWait(0)}, want: 5 * time.Second},
		"a shorter one":    {opts: []core.CallOption{core.WithMaxWait(time.Second)}, want: time.Second},
		"by its own words": {opts: []core.CallOption{core.WithMaxWait(0), core.WithFailFast()}, want: 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				spy := newSpy()
				spy.onAcquire = func(ctx context.Context, _ core.Request) error { <-ctx.Done(); return errDown }
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
