package core_test

import (
	"cmp"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
)

// TestLeadOneAtATime: two processes lead in turn, each until it is cut off from the store, and a
// deposed leader campaigns again. A leader's context has ended before the other one leads.
func TestLeadOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spies := []*spy{newSpy(), nil}
		spies[1] = spies[0].peer()
		ctx, stop := context.WithCancel(bg)
		leader, terms := -1, 0
		var last uint64
		returned := make(chan error, 2)
		for i, spy := range spies {
			eng := newEngine(t, spy, core.WithMaxWait(time.Second), core.WithMaxHold(time.Second), core.WithRunUnlocked(), core.WithoutCancelOnLoss(), core.WithLogger(discard))
			go func() {
				returned <- eng.Lead(ctx, "leader", func(ctx context.Context) error {
					check(t, leader < 0, "%d leads beside %d", i, leader)
					leader = i
					terms++
					l, ok := core.LeaseFrom(ctx)
					check(t, ok && l.Token() > last, "token %d after %d", l.Token(), last)
					last = l.Token()
					<-ctx.Done()
					leader = -1
					if asked := spy.requests(); terms < 7 { // the pauses of the last outage have ended with its campaign
						time.AfterFunc(200*time.Millisecond, func() { check(t, spy.requests() >= asked+2, "campaigned %d times in 0.2 s", spy.requests()-asked) })
					}
					return errors.New("interrupted")
				}, core.WithTTL(10*time.Second))
			}()
			synctest.Wait() // the first one leads first
		}
		for round := range 6 {
			time.Sleep(2 * time.Minute) // far longer than the bounds that New was given
			synctest.Wait()
			if leader != round%2 {
				t.Fatalf("%d leads in round %d", leader, round)
			}
			spies[leader].cutOff()
			time.Sleep(time.Minute)
			spies[round%2].reach()
		}
		stop()
		for range 2 {
			err := <-returned
			check(t, err != nil && !errors.Is(err, core.ErrLeaseLost), "Lead returned %v", err)
		}
		wantEqual(t, "terms", terms, 7)
	})
}

func TestLeadReturns(t *testing.T) {
	failing := errors.New("no more to do")
	end := func(err error) func(context.Context) error { return func(context.Context) error { return err } }
	never := func(context.Context) error { t.Error("led"); return nil }
	closed := newEngine(t, newSpy())
	shut(t, closed)
	for name, tc := range map[string]struct {
		ctx  context.Context
		eng  *core.Engine
		key  string
		fn   func(context.Context) error
		opts []core.CallOption
		want error
	}{
		"nil of fn":        {fn: end(nil)},
		"an error of fn":   {fn: end(failing), want: failing},
		"another's loss":   {fn: end(core.ErrLeaseLost), want: core.ErrLeaseLost},
		"no function":      {want: core.ErrInvalidOption},
		"a wrong key":      {key: "{", fn: never, want: core.ErrInvalidKey},
		"a wrong option":   {fn: never, opts: []core.CallOption{core.WithTTL(0)}, want: core.ErrInvalidOption},
		"a closed engine":  {eng: closed, fn: never, want: core.ErrClosed},
		"a canceled ctx":   {ctx: callerFor(t, 0, -1), fn: never, want: context.Canceled},
		"a bounded wait":   {key: "held", fn: never, opts: []core.CallOption{core.WithMaxWait(time.Millisecond)}, want: core.ErrWaitTimeout},
		"no wait":          {key: "held", fn: never, opts: []core.CallOption{core.WithFailFast()}, want: core.ErrHeld},
		"an idle executor": {fn: never, opts: []core.CallOption{core.WithExecutor(nowhere{})}, want: core.ErrInvalidOption},
	} {
		t.Run(name, func(t *testing.T) {
			eng := newEngine(t, newSpy())
			defer mustRelease(t, mustAcquire(t, eng, "held"))
			wantIs(t, "Lead", cmp.Or(tc.eng, eng).Lead(cmp.Or(tc.ctx, bg), cmp.Or(tc.key, "k"), tc.fn, tc.opts...), tc.want)
		})
	}
}

// nowhere is an executor that is not asked.
type nowhere struct{ core.Executor }

func (nowhere) Validate() error { return nil }

// TestLeadEndsInAnOutage with its context, or with the engine, in the middle of a pause.
func TestLeadEndsInAnOutage(t *testing.T) {
	for name, want := range map[string]error{"context": context.DeadlineExceeded, "engine": core.ErrClosed} {
		inBubble(t, name, func(t *testing.T) {
			spy, eng := newSpied(t, core.WithLogger(discard))
			spy.onAcquire = func(context.Context, driver.Request) error { return errDown }
			ctx := bg
			if want != core.ErrClosed {
				ctx = callerFor(t, time.Minute, 0)
			} else {
				time.AfterFunc(time.Minute, func() { _ = eng.Close(bg) })
			}
			began := time.Now()
			wantOnly(t, eng.Lead(ctx, "k", noWork), want)
			wantTook(t, began, time.Minute)
		})
	}
}
