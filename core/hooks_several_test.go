package core_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/store/memstore"
)

// numbered writes its number down with every event, into a log that others
// write to as well, and checks that the contexts it gave out come back to it.
type numbered struct {
	t   *testing.T
	n   string
	log *recorder
}

type numberedKey string

func (o numbered) hooks() observe.Hooks {
	note := func(format string, args ...any) { o.log.note(fmt.Sprintf(format, args...)) }
	start := func(ctx context.Context, event string) context.Context {
		note("%s%s", event, o.n)
		return context.WithValue(ctx, numberedKey(event), seenBy(ctx, event)+o.n)
	}
	end := func(ctx context.Context, event, start string) {
		note("%s%s", event, o.n)
		if seen := seenBy(ctx, start); seen != "12" {
			o.t.Errorf("%s%s: its context went through %q", event, o.n, seen)
		}
	}
	return observe.Hooks{
		AcquireStart: func(ctx context.Context, _ observe.Acquisition) context.Context { return start(ctx, "ask") },
		AcquireEnd: func(ctx context.Context, _ observe.Acquisition, _ observe.Lease, _ error) {
			end(ctx, "asked", "ask")
		},
		HoldStart: func(ctx context.Context, _ observe.Lease) context.Context { return start(ctx, "hold") },
		HoldEnd:   func(ctx context.Context, _ observe.Lease, _ error) { end(ctx, "held", "hold") },
		OnceStart: func(ctx context.Context, _ observe.Execution) context.Context { return start(ctx, "once") },
		OnceEnd: func(ctx context.Context, _ observe.Execution, _ observe.Outcome, _ error) {
			end(ctx, "done", "once")
		},
		Trace: func(context.Context) string { // the first one does not know
			if o.n == "1" {
				return ""
			}
			return "trace" + o.n
		},
		Blocked: func(_ context.Context, _ observe.Acquisition, held core.HeldError, position int) {
			note("blocked%s by %s, %d", o.n, held.Trace, position)
		},
		Declared: func(d observe.Declaration) {
			var claims []string
			for _, c := range d.Claims {
				claims = append(claims, c.Mode.String()+" "+c.Key)
			}
			note("declared%s %s, %s on %s: %s", o.n, d.Rule, d.Info, d.Store, claims)
		},
		Skipped: func(_ context.Context, s observe.Skip) {
			note("skipped%s %s on %s: %s", o.n, s.Rule, s.Store, s.Reason)
		},
		Renewed:       func(observe.Lease, time.Duration, error) { note("renewed%s", o.n) },
		Extended:      func(observe.Lease, error) { note("extended%s", o.n) },
		Forced:        func(context.Context, observe.Removal) { note("forced%s", o.n) },
		Owed:          func(_ context.Context, d observe.Debt) { note("%s%s", d.State, o.n) },
		Lingered:      func(l observe.Linger) { note("%s%s", l.State, o.n) },
		StoreImpaired: func(string, error) { note("impaired%s", o.n) },
		StoreCalled:   func(_, op string, _ time.Duration, _ error) { note("%s%s", op, o.n) },
		Unlocked:      func(context.Context, observe.Acquisition, error) { note("unlocked%s", o.n) },
	}
}

func seenBy(ctx context.Context, event string) string {
	s, _ := ctx.Value(numberedKey(event)).(string)
	return s
}

func TestSeveralHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &recorder{}
		spy := newSpy()
		eng := newEngine(t, spy, core.WithHooks(numbered{t, "1", log}.hooks()), core.WithHooks(observe.Hooks{}), core.WithHooks(numbered{t, "2", log}.hooks()))
		if _, err := eng.Once(context.Background(), "k", func(context.Context) ([]byte, error) {
			time.Sleep(4 * time.Second)
			return nil, nil
		}, core.WithTTL(10*time.Second)); err != nil {
			t.Fatal(err)
		}
		spy.onAcquire = func(context.Context, driver.Request) error { return errDown }
		must(t, eng.Do(context.Background(), "k", noWork, core.WithRunUnlocked()))
		want := []string{
			"once1", "once2", "ask1", "ask2", "acquire1", "acquire2", "hold1", "hold2", "asked2", "asked1",
			"renew1", "renew2", "renewed1", "renewed2", "complete1", "complete2", "held2", "held1", "done2", "done1",
			"ask1", "ask2", "acquire1", "acquire2", "asked2", "asked1", "unlocked1", "unlocked2",
		}
		if !slices.Equal(log.events, want) {
			t.Errorf("seen\n%q, want\n%q", log.events, want)
		}
	})
}

// A caller that waits learns the trace that it waits for, from the line of its own process as
// well as from the store.
func TestBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &recorder{}
		eng := newEngine(t, memstore.New(), core.WithHooks(numbered{t, "1", log}.hooks()), core.WithHooks(numbered{t, "2", log}.hooks()))
		holder, err := eng.TryAcquire(context.Background(), "k") // nobody waits for a hand-off then
		must(t, err)
		log.events = nil
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() { _ = eng.Do(context.Background(), "k", noWork) })
			synctest.Wait()
		}
		_, err = eng.TryAcquire(context.Background(), "k")
		if !errors.Is(err, core.ErrHeld) {
			t.Fatal(err)
		}
		blocked := slices.DeleteFunc(log.events, func(e string) bool { return !strings.HasPrefix(e, "blocked1") })
		if want := []string{"blocked1 by trace2, 0", "blocked1 by trace2, 1", "blocked1 by trace2, 1"}; !slices.Equal(blocked, want) {
			t.Errorf("seen\n%q, want\n%q", blocked, want)
		}
		must(t, holder.Release(context.Background()))
		all.Wait()
	})
}
