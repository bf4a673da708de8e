package core_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/watchdog"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/store/memstore"
)

// recorder writes down what it is told.
type recorder struct {
	mu     sync.Mutex
	events []string
}

type marked struct{}

func (r *recorder) note(event string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, event)
}

func (r *recorder) count(event string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e == event {
			n++
		}
	}
	return n
}

func outcome(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, core.ErrHeld):
		return "held"
	case errors.Is(err, core.ErrLeaseLost):
		return "lost"
	case errors.Is(err, core.ErrUnavailable):
		return "outage"
	case errors.Is(err, observe.ErrPanicked):
		return "panicked"
	}
	return "error"
}

func (r *recorder) hooks() observe.Hooks {
	return observe.Hooks{
		AcquireStart: func(ctx context.Context, a observe.Acquisition) context.Context {
			r.note("acquire " + a.Claims[0].Key)
			return context.WithValue(ctx, marked{}, "acquire")
		},
		AcquireEnd: func(ctx context.Context, _ observe.Acquisition, _ observe.Lease, err error) {
			if ctx.Value(marked{}) != "acquire" {
				r.note("AcquireEnd without its context")
			}
			r.note("acquired " + outcome(err))
		},
		HoldStart: func(ctx context.Context, l observe.Lease) context.Context {
			if ctx.Value(marked{}) == "acquire" {
				r.note("the hold lies under the acquisition")
			}
			r.note("hold " + l.Claims()[0].Key)
			return context.WithValue(ctx, marked{}, "hold")
		},
		HoldEnd: func(ctx context.Context, _ observe.Lease, err error) {
			if ctx.Value(marked{}) != "hold" {
				r.note("HoldEnd without its context")
			}
			r.note("held " + outcome(err))
		},
		Renewed:  func(_ observe.Lease, _ time.Duration, err error) { r.note("renewed " + outcome(err)) },
		Extended: func(_ observe.Lease, err error) { r.note("extended " + outcome(err)) },
		OnceStart: func(ctx context.Context, x observe.Execution) context.Context {
			r.note("once " + x.Key)
			return ctx
		},
		OnceEnd: func(_ context.Context, _ observe.Execution, out observe.Outcome, err error) {
			if out.Duplicate {
				r.note("duplicate")
				return
			}
			r.note("once " + outcome(err))
		},
		Unlocked: func(context.Context, observe.Acquisition, error) { r.note("unlocked") },
	}
}

func TestHooksSeeTheWholeLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := &recorder{}
		spy := newSpy()
		eng := newEngine(t, spy, core.WithHooks(seen.hooks()))
		l := mustAcquire(t, eng, "k", core.WithTTL(3*time.Second))
		if l.Context().Value(marked{}) != "hold" {
			t.Error("the handler's spans would not lie under the hold")
		}
		_, _ = eng.TryAcquire(context.Background(), "k")
		time.Sleep(1500 * time.Millisecond)
		mustRelease(t, l)
		lost := mustAcquire(t, eng, "k", core.WithTTL(3*time.Second))
		breakLock(t, spy, lost)
		time.Sleep(1500 * time.Millisecond)
		_ = lost.Release(context.Background())
		for range 2 {
			_, _ = eng.Once(context.Background(), "o", nothing)
		}
		spy.onAcquire = func(context.Context, driver.Request) error { return errDown }
		_, _ = eng.Acquire(context.Background(), "d")
		want := []string{
			"acquire k", "hold k", "acquired ok",
			"acquire k", "acquired held",
			"renewed ok", "held ok",
			"acquire k", "hold k", "acquired ok",
			"held lost", "renewed lost",
			"once o", "acquire o", "hold o", "acquired ok", "held ok", "once ok",
			"once o", "acquire o", "acquired ok", "duplicate",
			"acquire d", "acquired outage",
		}
		if !slices.Equal(seen.events, want) {
			t.Errorf("seen\n%q, want\n%q", seen.events, want)
		}
	})
}

func TestHooksSeeTheEndOfWhatPanics(t *testing.T) {
	once := func(how func()) func(*core.Engine) {
		return func(eng *core.Engine) {
			_, _ = eng.Once(bg, "k", func(context.Context) ([]byte, error) { how(); return nil, nil })
		}
	}
	ended := []string{"once k", "acquire k", "hold k", "acquired ok", "held ok", "once panicked"}
	for name, tt := range map[string]struct {
		call func(*core.Engine)
		want []string
	}{
		"function panics":             {once(func() { panic("fn") }), ended},
		"function ends its goroutine": {once(runtime.Goexit), ended},
		"store panics in an extension": {
			call: func(eng *core.Engine) {
				l := mustAcquire(t, eng, "held", core.WithTTL(time.Minute))
				defer mustRelease(t, l)
				_ = l.Extend(bg, 0)
			},
			want: []string{"acquire held", "hold held", "acquired ok", "extended panicked", "held ok"},
		},
		"store panics": {
			call: func(eng *core.Engine) { _, _ = eng.Acquire(context.Background(), "k") },
			want: []string{"acquire k", "acquired panicked"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			seen := &recorder{}
			spy := newSpy()
			spy.onAcquire = func(_ context.Context, req driver.Request) error { // Once asks Begin
				if req.Claims[0].Key != "held" {
					panic("store")
				}
				return nil
			}
			spy.onRenew = func(context.Context, driver.Grant) error { panic("store") }
			eng := newEngine(t, spy, core.WithHooks(seen.hooks()))
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				defer func() { _ = recover() }()
				tt.call(eng)
			}()
			<-ended
			if !slices.Equal(seen.events, tt.want) {
				t.Errorf("seen\n%q, want\n%q", seen.events, tt.want)
			}
		})
	}
}

// onHold has functions called with the lease.
type onHold struct {
	start func(observe.Lease)
	end   func(observe.Lease, error)
}

func (o onHold) hooks() observe.Hooks {
	return observe.Hooks{
		HoldStart: func(ctx context.Context, l observe.Lease) context.Context { o.start(l); return ctx },
		HoldEnd:   func(_ context.Context, l observe.Lease, err error) { o.end(l, err) },
	}
}

// A hook may look at the lease that it is told of.
func TestHookLooksAtTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var atEnd error
		eng := newEngine(t, memstore.New(), core.WithHooks(onHold{
			start: func(l observe.Lease) {
				if left := time.Until(l.Deadline()); left != defaultTTL-watchdog.Margin(defaultTTL) || l.Err() != nil || l.Context().Err() != nil {
					t.Errorf("at the start: %v left, Err %v, context %v", left, l.Err(), l.Context().Err())
				}
			},
			end: func(l observe.Lease, _ error) { atEnd = l.Err() },
		}.hooks()))
		mustRelease(t, mustAcquire(t, eng, "k"))
		if !errors.Is(atEnd, core.ErrReleased) {
			t.Errorf("at the end: %v", atEnd)
		}
		lost := mustAcquire(t, eng, "k", core.WithMaxHold(time.Second))
		time.Sleep(time.Minute)
		synctest.Wait()
		if !errors.Is(atEnd, core.ErrLeaseLost) {
			t.Errorf("at the loss: %v", atEnd)
		}
		_ = lost.Release(context.Background())
	})
}

// How a release ends is told by the release, though others look at the lease
// while it is under way.
func TestHoldEndIsTheReleasesOutcome(t *testing.T) {
	for name, tc := range map[string]struct{ said, want error }{
		"released": {nil, nil},
		"lost":     {&core.LeaseLostError{}, core.ErrLeaseLost},
		"unknown":  {errDown, core.ErrOutcomeUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			var ends []error
			spy := newSpy()
			eng := newEngine(t, spy, core.WithHooks(onHold{
				start: func(observe.Lease) {},
				end:   func(_ observe.Lease, err error) { ends = append(ends, err) },
			}.hooks()))
			l := mustAcquire(t, eng, "k")
			spy.onRelease = func(context.Context, driver.Grant) error {
				if !errors.Is(l.Err(), core.ErrReleased) {
					t.Errorf("Err during the release: %v", l.Err())
				}
				return tc.said
			}
			defer spy.mend()
			_ = l.Release(context.Background())
			if len(ends) != 1 || !errors.Is(ends[0], tc.want) {
				t.Errorf("HoldEnd was told %v, want %v", ends, tc.want)
			}
		})
	}
}
