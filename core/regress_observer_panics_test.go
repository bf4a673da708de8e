package core_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
)

// rude panics where it is told to.
type rude struct {
	core.NopObserver
	at     string
	before func() // it panics; nil: nothing
}

func (r rude) panics(at string) {
	if r.at == at {
		panic("observer")
	}
}

func (r rude) AcquireEnd(context.Context, core.Acquisition, *core.Lease, error) {
	r.panics("AcquireEnd")
}

func (r rude) HoldStart(ctx context.Context, _ *core.Lease) context.Context {
	r.panics("HoldStart")
	return ctx
}

func (r rude) Blocked(context.Context, core.Acquisition, core.HeldError, int) {
	if r.before != nil {
		r.before()
	}
	r.panics("Blocked")
}

func (r rude) StoreCalled(_, op string, _ time.Duration, _ error) { r.panics("StoreCalled " + op) }

// A lease that was granted, and that an observer's panic kept from its caller,
// would stay until its TTL is over, or its max hold: nobody has it to release it.
func TestObserverThatPanicsLeavesNoLease(t *testing.T) {
	for _, at := range []string{"AcquireEnd", "HoldStart", "StoreCalled acquire"} {
		t.Run(at, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				spy := newSpy()
				eng := newEngine(t, spy, core.WithObserver(rude{at: at}))
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				func() {
					defer func() {
						if recover() != "observer" {
							t.Error("the panic does not reach the caller")
						}
					}()
					_, _ = eng.Acquire(ctx, "k")
				}()
				synctest.Wait()
				if len(spy.released) != 1 {
					t.Error("the lease was not released")
				}
				isFree(t, newEngine(t, spy.Peer()), "k")
				if left := eng.Left(); left != "" {
					t.Error(left)
				}
			})
		})
	}
}

// A place in line that nobody is left to give up would keep all others waiting.
func TestObserverThatPanicsLeavesNoPlace(t *testing.T) {
	for name, early := range map[string]bool{"waiting": false, "given the lease meanwhile": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				spy := newSpy()
				var first *core.Lease
				eng := newEngine(t, spy, core.WithObserver(rude{at: "Blocked", before: func() {
					if early {
						mustRelease(t, first)
					}
				}}))
				first = mustAcquire(t, eng, "k")
				func() {
					defer func() {
						if recover() != "observer" {
							t.Error("the panic does not reach the caller")
						}
					}()
					_, _ = eng.Acquire(context.Background(), "k")
				}()
				mustRelease(t, first)
				synctest.Wait()
				isFree(t, newEngine(t, spy.Peer()), "k")
				if left := eng.Left(); left != "" {
					t.Error(left)
				}
				mustRelease(t, mustAcquire(t, eng, "k", core.WithMaxWait(time.Second)))
			})
		})
	}
}

// Who would wait at the store and panics instead leaves no ghost in its line, which
// would cost the next one a whole TTL.
func TestObserverThatPanicsLeavesNoPlaceAtTheStore(t *testing.T) {
	for name, claims := range map[string][]core.Claim{
		"one key":  {core.Exclusive("k")},
		"a set":    {core.Exclusive("j"), core.Exclusive("k")},
		"a reader": {core.Shared("k")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				spy := newSpy()
				holder, next := newEngine(t, spy.Peer()), newEngine(t, spy.Peer())
				eng := newEngine(t, spy, core.WithObserver(rude{at: "Blocked"}))
				first := mustAcquire(t, holder, "k")
				func() {
					defer func() {
						if recover() != "observer" {
							t.Error("the panic does not reach the caller")
						}
					}()
					_, _ = eng.AcquireAll(context.Background(), claims)
				}()
				if left := eng.Left(); left != "" {
					t.Error(left)
				}
				mustRelease(t, first)
				began := time.Now()
				for _, c := range claims {
					mustRelease(t, mustAcquire(t, next, c.Key))
				}
				if took := time.Since(began); took != 0 {
					t.Errorf("the next one waited %v for nobody", took)
				}
			})
		})
	}
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
