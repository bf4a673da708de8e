package core_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
)

type marked struct{}

// Hooks are told of all that happens to leases, in order: the second hooks after the first of what begins, and
// before it of what ends.
func TestHooksSeeTheWholeLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, spy := &recorder{}, newSpy()
		eng := newEngine(t, spy, core.WithHooks(log.hooks(t, "1")), core.WithHooks(observe.Hooks{}), core.WithHooks(log.hooks(t, "2")))
		l := mustAcquire(t, eng, "k", core.WithTTL(3*time.Second))
		check(t, passedBy(l.Context(), "HoldStart") == log.chain, "the handler's spans would not lie under the hold")
		_, _ = eng.TryAcquire(bg, "k")
		time.Sleep(1500 * time.Millisecond)
		must(t, l.Extend(bg, 0))
		mustRelease(t, l)
		lost := mustAcquire(t, eng, "k", core.WithTTL(3*time.Second))
		breakLock(t, spy, lost)
		time.Sleep(1500 * time.Millisecond)
		_ = lost.Release(bg)
		lost = mustAcquire(t, eng, "k")
		breakLock(t, spy, lost)
		wantOnly(t, lost.Extend(bg, 0), core.ErrLeaseLost)
		_ = lost.Release(bg)
		for range 2 {
			_, _ = eng.Once(bg, "o", nothing)
		}
		spy.onAcquire = func(context.Context, driver.Request) error { return errDown }
		must(t, eng.Do(bg, "d", noWork, core.WithRunUnlocked()))

		seen := slices.DeleteFunc(log.events, func(event string) bool { return strings.Contains(event, "Trace") })
		var once []string
		for i := 0; i < len(seen); i += 2 {
			order := "12"
			if strings.Contains(seen[i], "End") {
				order = "21"
			}
			a, b := seen[i], seen[i+1]
			check(t, a[:1]+b[:1] == order && a[1:] == b[1:], "first %q, then %q", a, b)
			once = append(once, seen[i][1:])
		}
		want := []string{
			"AcquireStart k", "StoreCalled memory acquire ok", "HoldStart", "AcquireEnd k ok",
			"AcquireStart k", "StoreCalled memory acquire held", "Blocked k by trace2 0", "AcquireEnd k held",
			"StoreCalled memory renew ok", "Renewed ok", "StoreCalled memory renew ok", "Extended ok",
			"StoreCalled memory release ok", "HoldEnd ok",
			"AcquireStart k", "StoreCalled memory acquire ok", "HoldStart", "AcquireEnd k ok",
			"StoreCalled memory renew lost", "HoldEnd lost", "Renewed lost",
			"AcquireStart k", "StoreCalled memory acquire ok", "HoldStart", "AcquireEnd k ok",
			"StoreCalled memory renew lost", "HoldEnd lost", "Extended lost",
			"OnceStart o", "AcquireStart o", "StoreCalled memory acquire ok", "HoldStart", "AcquireEnd o ok",
			"StoreCalled memory complete ok", "HoldEnd ok", "OnceEnd o ok",
			"OnceStart o", "AcquireStart o", "StoreCalled memory acquire ok", "AcquireEnd o ok", "OnceEnd o duplicate ok",
			"AcquireStart d", "StoreCalled memory acquire outage", "AcquireEnd d outage", "Unlocked d outage",
		}
		check(t, slices.Equal(once, want), "seen\n%q, want\n%q", once, want)
	})
}

func TestHooksSeeTheEndOfWhatPanics(t *testing.T) {
	once := func(how func()) func(*core.Engine) {
		return func(eng *core.Engine) {
			_, _ = eng.Once(bg, "k", func(context.Context) ([]byte, error) { how(); return nil, nil })
		}
	}
	ended := "OnceEnd k panicked"
	for name, tt := range map[string]struct {
		call func(*core.Engine)
		want []string // of the ends
	}{
		"function panics":             {once(func() { panic("fn") }), []string{"AcquireEnd k ok", "HoldEnd ok", ended}},
		"function ends its goroutine": {once(runtime.Goexit), []string{"AcquireEnd k ok", "HoldEnd ok", ended}},
		"store panics in an extension": {
			call: func(eng *core.Engine) {
				l := mustAcquire(t, eng, "k", core.WithTTL(time.Minute))
				defer mustRelease(t, l)
				_ = l.Extend(bg, 0)
			},
			want: []string{"AcquireEnd k ok", "Extended panicked", "HoldEnd ok"},
		},
		"store panics": {func(eng *core.Engine) { _, _ = eng.Acquire(bg, "panics") }, []string{"AcquireEnd panics panicked"}},
	} {
		t.Run(name, func(t *testing.T) {
			seen, spy := &recorder{}, newSpy()
			spy.onAcquire = func(_ context.Context, req driver.Request) error {
				if req.Claims[0].Key == "panics" {
					panic("store")
				}
				return nil
			}
			spy.onRenew = func(context.Context, driver.Grant) error { panic("store") }
			eng := newEngine(t, spy, core.WithHooks(seen.hooks(t, "")))
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				defer func() { _ = recover() }()
				tt.call(eng)
			}()
			<-gone
			ends := slices.DeleteFunc(seen.events, func(e string) bool { return !strings.Contains(e, "End") && !strings.Contains(e, "Extended") })
			check(t, slices.Equal(ends, tt.want), "seen\n%q, want\n%q", ends, tt.want)
		})
	}
}

// How a release ends is told by the release, though others look at the lease
// while it is under way. The context ends before the next one can be let in.
func TestHoldEndIsTheReleasesOutcome(t *testing.T) {
	for name, tc := range map[string]struct{ said, want error }{
		"released": {nil, nil},
		"lost":     {&core.LeaseLostError{}, core.ErrLeaseLost},
		"unknown":  {errDown, core.ErrOutcomeUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			var ends []error
			spy, eng := newSpied(t, core.WithHooks(observe.Hooks{HoldEnd: func(_ context.Context, _ observe.Lease, err error) { ends = append(ends, err) }}))
			l := mustAcquire(t, eng, "k")
			spy.onRelease = func(context.Context, driver.Grant) error {
				check(t, errors.Is(l.Err(), core.ErrReleased), "Err during the release: %v", l.Err())
				check(t, context.Cause(l.Context()) == core.ErrReleased, "this one's work may go on")
				return tc.said
			}
			defer spy.mend()
			_ = l.Release(bg)
			check(t, len(ends) == 1 && errors.Is(ends[0], tc.want), "HoldEnd was told %v, want %v", ends, tc.want)
		})
	}
}
