package core_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
)

// numbered writes its number down with every event, into a log that others
// write to as well, and checks that the contexts it gave out come back to it.
type numbered struct {
	t   *testing.T
	n   string
	log *recorder
}

type numberedKey string

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

func (o numbered) AcquireStart(ctx context.Context, _ core.Acquisition) context.Context {
	return o.start(ctx, "ask")
}

func (o numbered) AcquireEnd(ctx context.Context, _ core.Acquisition, _ *core.Lease, _ error) {
	o.end(ctx, "asked", "ask")
}

func (o numbered) HoldStart(ctx context.Context, _ *core.Lease) context.Context {
	return o.start(ctx, "hold")
}

func (o numbered) Renewed(*core.Lease, time.Duration, error) {
	o.log.note("renewed" + o.n)
}

func (o numbered) HoldEnd(ctx context.Context, _ *core.Lease, _ error) { o.end(ctx, "held", "hold") }

func (o numbered) OnceStart(ctx context.Context, _, _ string) context.Context {
	return o.start(ctx, "once")
}

func (o numbered) OnceEnd(ctx context.Context, _, _ string, _ core.Outcome, _ error) {
	o.end(ctx, "done", "once")
}

func (o numbered) Unlocked(context.Context, core.Acquisition, error) {
	o.log.note("unlocked" + o.n)
}

func TestSeveralObservers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &recorder{}
		spy := newSpy()
		eng := newEngine(t, spy, core.WithObserver(numbered{t, "1", log}), core.WithObserver(nil), core.WithObserver(numbered{t, "2", log}))
		if _, err := eng.Once(context.Background(), "k", func(context.Context) ([]byte, error) {
			time.Sleep(4 * time.Second)
			return nil, nil
		}, core.WithTTL(10*time.Second)); err != nil {
			t.Fatal(err)
		}
		spy.onAcquire = func(context.Context, core.Request) error { return errDown }
		if err := eng.Do(context.Background(), "k", func(context.Context) error { return nil }, core.WithRunUnlocked()); err != nil {
			t.Fatal(err)
		}
		want := []string{
			"once1", "once2", "ask1", "ask2", "hold1", "hold2", "asked2", "asked1", "renewed1", "renewed2", "held2", "held1", "done2", "done1",
			"ask1", "ask2", "asked2", "asked1", "unlocked1", "unlocked2",
		}
		if !slices.Equal(log.events, want) {
			t.Errorf("seen\n%q, want\n%q", log.events, want)
		}
	})
}
