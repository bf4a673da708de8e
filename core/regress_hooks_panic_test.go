package core_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/author"
	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
)

// wholeLife has an engine do all that there are hooks for, and says what came of each
// step, and what hooks besides those in opts were told: in order of their names, because several
// goroutines call them.
func wholeLife(t *testing.T, opts ...core.EngineOption) (outcomes, called []string, errs []error) {
	spy := newSpy()
	store := hooked{spy, &ailing{Store: spy.Store}}
	seen := &recorder{}
	eng := newEngine(t, store, append(opts, core.WithHooks(seen.hooks(t, "")))...)
	note := func(step string, err error) {
		outcomes, errs = append(outcomes, fmt.Sprint(step, ": ", outcome(err))), append(errs, err)
	}

	store.ailing.tell(errors.New("a limp"))
	policy, err := core.NewPolicy(core.WithRule("rule"))
	note("policy", err)
	note("declare", declared(eng, policy, coverage.Rule{Key: "k"}, "k"))
	author.Skipped(bg, eng, policy, coverage.SkipHeld)

	first := mustAcquire(t, eng, "ann:k", core.WithTTL(3*time.Second))
	note("extend", first.Extend(bg, 0))
	note("refused", errOf(eng.TryAcquire(bg, "ann:k")))
	var heir sync.WaitGroup
	heir.Go(func() { mustRelease(t, mustAcquire(t, eng, "ann:k")) })
	time.Sleep(1500 * time.Millisecond) // a renewal
	note("release", first.Release(bg))
	heir.Wait()

	far := mustAcquire(t, newEngine(t, spy.Peer()), "ann:far")
	heir.Go(func() {
		l, err := eng.AcquireAll(bg, []core.Claim{core.Exclusive("ann:far"), core.Exclusive("ann:near")})
		if err == nil {
			err = l.Release(bg)
		}
		note("a set", err)
	})
	synctest.Wait()
	mustRelease(t, far)
	heir.Wait()

	lost := mustAcquire(t, eng, "ann:k", core.WithTTL(3*time.Second))
	breakLock(t, spy, lost)
	<-lost.Context().Done()
	synctest.Wait() // the watchdog has called its hooks
	note("lost", lost.Release(bg))
	forced := mustAcquire(t, eng, "ann:k")
	note("force", errOf(eng.ForceRelease(bg, "ann:k", "a test")))
	note("forced", forced.Release(bg))
	for range 2 {
		note("once", errOf(eng.Once(bg, "ann:once", nothing)))
	}

	owed := mustAcquire(t, eng, "ann:k")
	spy.change(func() { spy.onRelease = func(context.Context, driver.Grant) error { return errDown } })
	note("owed", owed.Release(bg))
	spy.mend()
	time.Sleep(time.Second) // it is sent again
	spy.change(func() { spy.onAcquire = func(context.Context, driver.Request) error { return errDown } })
	note("unlocked", eng.Do(bg, "ann:k", noWork, core.WithRunUnlocked()))
	spy.change(func() { spy.onAcquire = nil })
	synctest.Wait()

	mustRelease(t, mustAcquire(t, eng, "ann:sticky", core.WithLinger(time.Second)))
	time.Sleep(2 * time.Second)
	synctest.Wait() // it has been given back

	for _, key := range []string{"ann:k", "ann:far", "ann:near", "ann:once", "ann:sticky"} {
		isFree(t, newEngine(t, spy.Peer()), key)
	}
	wantNothingLeft(t, eng)
	slices.Sort(seen.events)
	return outcomes, seen.events, errs
}

// hooked is a spy that may be impaired.
type hooked struct {
	*spy
	ailing *ailing
}

func (h hooked) Describe() driver.Description { return h.ailing.Describe() }

// A hook that panics changes neither what callers get nor what other hooks are told,
// and leaves no lease, no place in a line and no goroutine behind. The log names it.
func TestHookThatPanicsChangesNothing(t *testing.T) {
	var wantOutcomes, wantCalled []string
	synctest.Test(t, func(t *testing.T) {
		wantOutcomes, wantCalled, _ = wholeLife(t)
	})
	for _, name := range hookNames() {
		check(t, strings.Contains(strings.Join(wantCalled, "\n"), name), "%s was not called: this tests nothing", name)
		inBubble(t, name, func(t *testing.T) {
			log := newLines()
			var rude observe.Hooks
			setHook(&rude, name, func([]any) any { panic("the hook " + name) })
			outcomes, called, _ := wholeLife(t, core.WithHooks(rude), core.WithLogger(slog.New(log)))
			check(t, slices.Equal(outcomes, wantOutcomes), "outcomes\n%q, want\n%q", outcomes, wantOutcomes)
			check(t, slices.Equal(called, wantCalled), "called\n%q, want\n%q", called, wantCalled)
			want := `level=ERROR msg="keyturn: a hook panicked" hook=` + name + ` panic="the hook ` + name + `" stack="goroutine `
			if !slices.ContainsFunc(log.written(), func(line string) bool {
				return strings.HasPrefix(line, want) && strings.Contains(line, "setHook")
			}) {
				t.Errorf("logged\n%q", log.written())
			}
		})
	}
}

// A hook that forgets to return a context does not take the caller's away.
func TestHookThatReturnsNoContext(t *testing.T) {
	eng := newEngine(t, newSpy(), core.WithHooks(observe.Hooks{
		AcquireStart: func(context.Context, observe.Acquisition) context.Context { return nil },
		HoldStart:    func(context.Context, observe.Lease) context.Context { return nil },
		OnceStart:    func(context.Context, observe.Execution) context.Context { return nil },
	}))
	ctx := context.WithValue(bg, marked{}, "mine")
	out, err := eng.Once(ctx, "k", func(ctx context.Context) ([]byte, error) {
		return []byte(ctx.Value(marked{}).(string)), nil
	})
	check(t, err == nil && string(out.Result) == "mine", "%q, %v", out.Result, err)
}
