package core_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/memstore"
)

var errHandler = errors.New("the handler's own")

func TestDoReleasesOnPanicAndGoexit(t *testing.T) {
	eng := newEngine(t, memstore.New())
	for _, end := range []func(){func() { panic("boom") }, runtime.Goexit} {
		done := make(chan any)
		go func() {
			defer func() { done <- recover() }()
			_ = eng.Do(bg, "k", func(context.Context) error { end(); return nil })
		}()
		p := <-done
		check(t, p == "boom" || p == nil, "recovered %v", p)
		isFree(t, eng, "k")
	}
}

// A loss is reported whatever the function says, its own error along with it; and nothing is on record.
func TestALossIsReportedWhateverTheFunctionSays(t *testing.T) {
	for _, own := range []error{nil, errHandler} {
		spy, eng := newSpied(t)
		lose := func(ctx context.Context) error {
			l, _ := core.LeaseFrom(ctx)
			breakLock(t, spy, l)
			return own
		}
		done := eng.Do(bg, "k", lose)
		_, once := eng.Once(bg, "k", func(ctx context.Context) ([]byte, error) { return nil, lose(ctx) })
		for _, err := range []error{done, once} {
			wantOnly(t, err, core.ErrLeaseLost)
			check(t, own == nil || errors.Is(err, own), "%v hides the function's error", err)
		}
		out, err := eng.Once(bg, "k", nothing)
		check(t, err == nil && !out.Duplicate, "a run whose lease was lost is on record: %+v, %v", out, err)
	}
}

// Nothing runs unlocked except in an outage, and only where that was asked for. A deadline that leaves a
// store less than a tenth of a second makes no outage of one that is slow, however the store words it; a
// refusal does, at any time.
func TestRunUnlocked(t *testing.T) {
	type hook = func(context.Context, driver.Request) error
	says := func(err error) hook { return func(context.Context, driver.Request) error { return err } }
	slow := func(ctx context.Context, _ driver.Request) error { <-ctx.Done(); return errDown }
	terse := func(ctx context.Context, _ driver.Request) error { <-ctx.Done(); return ctx.Err() }
	allowed := core.WithRunUnlocked()
	within := func(d time.Duration) []core.CallOption { return []core.CallOption{allowed, core.WithMaxWait(d)} }
	for name, tc := range map[string]struct {
		store    hook
		held     bool
		deadline time.Duration // the caller's own
		opts     []core.CallOption
		runs     bool
	}{
		"outage":                {store: says(errDown), opts: []core.CallOption{allowed}, runs: true},
		"outage, by default":    {store: says(errDown)},
		"outage in no time":     {store: says(errDown), opts: within(50 * time.Millisecond), runs: true},
		"held":                  {held: true, opts: []core.CallOption{allowed, core.WithFailFast()}},
		"waited out":            {held: true, opts: within(time.Millisecond)},
		"other error":           {store: says(errors.New("wrong type")), opts: []core.CallOption{allowed}},
		"invalid key":           {store: says(&core.KeyError{}), opts: []core.CallOption{allowed}},
		"caller gone":           {store: says(errDown), deadline: -1, opts: []core.CallOption{allowed}},
		"caller's deadline":     {store: slow, deadline: time.Second, opts: []core.CallOption{allowed}}, // the work has nobody
		"slow":                  {store: slow, opts: within(50 * time.Millisecond)},
		"slow and terse":        {store: terse, opts: within(50 * time.Millisecond)},
		"time enough":           {store: slow, opts: within(100 * time.Millisecond), runs: true},
		"time enough, terse":    {store: terse, opts: within(100 * time.Millisecond), runs: true},
		"time enough, failfast": {store: slow, opts: []core.CallOption{core.WithFailFast(), allowed}, runs: true},
	} {
		inBubble(t, name, func(t *testing.T) {
			spy, seen := newSpy(), &recorder{}
			eng := newEngine(t, spy, core.WithHooks(seen.hooks(t, "")))
			if tc.held {
				defer mustRelease(t, mustAcquire(t, eng, "k"))
			}
			spy.onAcquire = tc.store
			ran := false
			err := eng.Do(callerFor(t, tc.deadline, 0), "k", func(context.Context) error { ran = true; return nil }, tc.opts...)
			check(t, ran == tc.runs && (err == nil) == tc.runs, "Do: ran %v, error %v", ran, err)
			wantEqual(t, "hooks are told of unlocked work", strings.Contains(strings.Join(seen.events, "\n"), "Unlocked"), tc.runs)
		})
	}
}

func TestOnceRunsUnlocked(t *testing.T) {
	for _, tc := range []struct{ down, result error }{{errDown, nil}, {errDown, core.ErrSkipResult}, {errors.New("wrong type"), nil}} {
		spy, ran, want := newSpy(), false, tc.down == error(errDown)
		spy.onAcquire = func(context.Context, driver.Request) error { return tc.down }
		eng := newEngine(t, spy, core.WithRunUnlocked())
		out, err := eng.Once(bg, "k", func(context.Context) ([]byte, error) { ran = true; return []byte("r"), tc.result })
		if ran != want || (err == nil) != want || out.Duplicate || (ran && string(out.Result) != "r") {
			t.Errorf("%v: ran %v, outcome %+v, error %v", tc.down, ran, out, err)
		}
		if !want { // the store's own error comes through
			wantIs(t, "error", err, tc.down)
			wantOnly(t, err)
		}
	}
}

// A caller that joins the line late, or becomes its head late, has left the store no time
// either.
func TestHurryInLineDoesNotRunUnlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy, eng := newSpied(t)
		spy.onAcquire = func(ctx context.Context, _ driver.Request) error { <-ctx.Done(); return errDown }
		var all sync.WaitGroup
		for _, wait := range []time.Duration{80, 50, 90, 140} {
			all.Go(func() {
				opts := []core.CallOption{core.WithMaxWait(wait * time.Millisecond), core.WithRunUnlocked()}
				wantOnly(t, eng.Do(bg, "k", func(context.Context) error { t.Error("ran unlocked"); return nil }, opts...), core.ErrUnavailable)
			})
			synctest.Wait()
		}
		all.Wait()
	})
}

// A goroutine that outlived Do, and went on under its context, was told "context canceled" and not why.
func TestAnEndedWaitSaysWhy(t *testing.T) {
	eng := newEngine(t, memstore.New())
	var outlived context.Context
	must(t, eng.Do(bg, "k", func(ctx context.Context) error { outlived = ctx; return nil }))
	_, err := eng.Acquire(outlived, "other")
	wantOnly(t, err, context.Canceled)
	check(t, strings.Contains(err.Error(), core.ErrReleased.Error()), "the error does not say why the context has ended: %v", err)
}

// Whoever looks at a lease's context while the lease is released and its parent's time runs out sees
// one end, whichever it was, and its cause.
func TestLeaseContextEndsOnceForAll(t *testing.T) {
	eng := newEngine(t, memstore.New())
	causes := map[error]error{context.Canceled: core.ErrReleased, context.DeadlineExceeded: context.DeadlineExceeded}
	for i := range 500 {
		l, err := eng.Acquire(callerFor(t, time.Duration(1+i%50)*4*time.Microsecond, 0), "k")
		if err != nil { // the parent's time was over already
			continue
		}
		var looking, release sync.WaitGroup
		release.Add(1)
		for range 2 {
			looking.Go(func() {
				ctx, first := l.Context(), error(nil)
				for first == nil {
					runtime.Gosched()
					first = ctx.Err()
				}
				release.Wait()
				err, cause := ctx.Err(), context.Cause(ctx)
				check(t, err == first && errors.Is(cause, causes[first]), "%v, then %v with cause %v", first, err, cause)
				<-ctx.Done()
			})
		}
		time.Sleep(time.Duration(i%40) * time.Microsecond) // so that either may come first
		_ = l.Release(bg)
		release.Done()
		looking.Wait()
	}
}
