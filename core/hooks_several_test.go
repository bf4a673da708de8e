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
	return observe.Hooks{
		AcquireStart: o.AcquireStart, AcquireEnd: o.AcquireEnd, Trace: o.Trace, Blocked: o.Blocked,
		HoldStart: o.HoldStart, HoldEnd: o.HoldEnd, Renewed: o.Renewed, Extended: o.Extended, Owed: o.Owed,
		OnceStart: o.OnceStart, OnceEnd: o.OnceEnd, Unlocked: o.Unlocked, Forced: o.Forced,
		Declared: o.Declared, Skipped: o.Skipped, StoreCalled: o.StoreCalled, StoreImpaired: o.StoreImpaired, Lingered: o.Lingered,
	}
}

func (o numbered) start(ctx context.Context, event string) context.Context {
	o.log.note(event + o.n)
	return context.WithValue(ctx, numberedKey(event), seenBy(ctx, event)+o.n)
}

func (o numbered) end(ctx context.Context, event, start string) {
	o.log.note(event + o.n)
	if seen := seenBy(ctx, start); seen != "12" {
		o.t.Errorf("%s%s: its context went through %q", event, o.n, seen)
	}
}

func seenBy(ctx context.Context, event string) string {
	s, _ := ctx.Value(numberedKey(event)).(string)
	return s
}

func (o numbered) AcquireStart(ctx context.Context, _ observe.Acquisition) context.Context {
	return o.start(ctx, "ask")
}

func (o numbered) AcquireEnd(ctx context.Context, _ observe.Acquisition, _ observe.Lease, _ error) {
	o.end(ctx, "asked", "ask")
}

func (o numbered) HoldStart(ctx context.Context, _ observe.Lease) context.Context {
	return o.start(ctx, "hold")
}

func (o numbered) Renewed(observe.Lease, time.Duration, error) {
	o.log.note("renewed" + o.n)
}

func (o numbered) HoldEnd(ctx context.Context, _ observe.Lease, _ error) { o.end(ctx, "held", "hold") }

func (o numbered) OnceStart(ctx context.Context, _ observe.Execution) context.Context {
	return o.start(ctx, "once")
}

func (o numbered) OnceEnd(ctx context.Context, _ observe.Execution, _ observe.Outcome, _ error) {
	o.end(ctx, "done", "once")
}

func (o numbered) Blocked(_ context.Context, _ observe.Acquisition, held core.HeldError, position int) {
	o.log.note(fmt.Sprintf("blocked%s by %s, %d", o.n, held.Trace, position))
}

func (o numbered) Extended(observe.Lease, error) { o.log.note("extended" + o.n) }

func (o numbered) Declared(d observe.Declaration) {
	var claims []string
	for _, c := range d.Claims {
		claims = append(claims, c.Mode.String()+" "+c.Key)
	}
	o.log.note(fmt.Sprintf("declared%s %s, %s on %s: %s", o.n, d.Rule, d.Info, d.Store, claims))
}

func (o numbered) Skipped(_ context.Context, s observe.Skip) {
	o.log.note(fmt.Sprintf("skipped%s %s on %s: %s", o.n, s.Rule, s.Store, s.Reason))
}

func (o numbered) Forced(context.Context, observe.Removal) { o.log.note("forced" + o.n) }

func (o numbered) Owed(_ context.Context, d observe.Debt) { o.log.note(string(d.State) + o.n) }

func (o numbered) Lingered(l observe.Linger) { o.log.note(string(l.State) + o.n) }

func (o numbered) StoreImpaired(string, error) { o.log.note("impaired" + o.n) }

func (o numbered) StoreCalled(_, op string, _ time.Duration, _ error) { o.log.note(op + o.n) }

// Trace: the first one does not know.
func (o numbered) Trace(context.Context) string {
	if o.n == "1" {
		return ""
	}
	return "trace" + o.n
}

func (o numbered) Unlocked(context.Context, observe.Acquisition, error) {
	o.log.note("unlocked" + o.n)
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
		if err := eng.Do(context.Background(), "k", func(context.Context) error { return nil }, core.WithRunUnlocked()); err != nil {
			t.Fatal(err)
		}
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
		if err != nil {
			t.Fatal(err)
		}
		log.events = nil
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				_ = eng.Do(context.Background(), "k", func(context.Context) error { return nil })
			})
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
		if err := holder.Release(context.Background()); err != nil {
			t.Fatal(err)
		}
		all.Wait()
	})
}
