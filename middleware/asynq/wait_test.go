package lockasynq_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/locktest"
	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
	"github.com/keyturn/keyturn/middleware/reasons"
	"github.com/keyturn/keyturn/store/memstore"
)

// TestHowLongATaskWaits before its policy counts.
func TestHowLongATaskWaits(t *testing.T) {
	ctx := metadata(t)
	const again, wait, skip, fail = lockasynq.Reschedule, lockasynq.Wait, lockasynq.Skip, lockasynq.Fail
	bound := func(d time.Duration) []core.CallOption { return []core.CallOption{core.WithMaxWait(d)} }
	atOnce := []core.CallOption{core.WithFailFast()}
	for name, tt := range map[string]struct {
		policy  lockasynq.Conflict
		opts    []core.CallOption
		timeout time.Duration
		want    time.Duration
		is      error
	}{
		"the package's default":     {again, nil, time.Hour, lockasynq.DefaultMaxWait, core.ErrWaitTimeout},
		"the rule's, longer":        {again, bound(time.Minute), time.Hour, time.Minute, core.ErrWaitTimeout},
		"not at all":                {again, atOnce, time.Hour, 0, core.ErrHeld},
		"half of the task's time":   {again, nil, 2 * time.Second, time.Second, core.ErrHeld},
		"a task without a deadline": {again, nil, 0, lockasynq.DefaultMaxWait, core.ErrWaitTimeout},
		"Skip":                      {skip, nil, time.Hour, 0, nil},
		"Skip, half":                {skip, bound(core.Forever), time.Hour, 30 * time.Minute, nil},
		"Fail":                      {fail, nil, time.Hour, lockasynq.DefaultMaxWait, core.ErrWaitTimeout},
		"Fail, half":                {fail, bound(core.Forever), time.Hour, 30 * time.Minute, core.ErrHeld},
		"Wait":                      {wait, atOnce, time.Hour, time.Hour, context.DeadlineExceeded},
	} {
		for kind, rule := range map[string]lockasynq.Rule{
			"Serialize": lockasynq.Serialize("t", "k", tt.opts...),
			"Once":      lockasynq.Once("t", "k", tt.opts...),
		} {
			synctest.Test(t, func(t *testing.T) {
				eng := engine(t, core.WithMaxHold(core.Forever), core.WithMaxWait(2*time.Hour), // which does not count
					core.WithKeyFilter(func(string) string { return "hidden" }))
				hold(t, eng, "k")
				ctx, cancel := ctx, context.CancelFunc(func() {})
				if tt.timeout > 0 {
					ctx, cancel = context.WithTimeout(ctx, tt.timeout)
				}
				defer cancel()
				began := time.Now()
				err := process(ctx, nothingRuns(t, locks(t, eng, rule.OnConflict(tt.policy))), "t", "")
				waited := time.Since(began)
				check(t, waited == tt.want && errors.Is(err, tt.is), "%s, %s: waited %v, %v; want %v, %v", name, kind, waited, err, tt.want, tt.is)
				check(t, !strings.Contains(fmt.Sprint(err), `"k"`), "%s, %s: asynq keeps the key in %v", name, kind, err)
				var failed *lockasynq.ConflictError
				if isAgain(err) != (tt.policy == again) || errors.As(err, &failed) != (tt.policy == fail) || (failed != nil && failed.Pattern != "t") {
					t.Errorf("%s, %s: %#v", name, kind, err)
				}
			})
		}
	}
}

// TestRefusalSaysWhenToComeAgain: the engine's estimate of when the key is free reaches asynq.
func TestRefusalSaysWhenToComeAgain(t *testing.T) {
	ctx := metadata(t)
	synctest.Test(t, func(t *testing.T) {
		eng := engine(t)
		_ = eng.Do(ctx, "other", func(context.Context) error {
			_, _ = eng.TryAcquire(context.Background(), "other") // holds are counted from the first refusal on
			time.Sleep(3 * time.Second)
			return nil
		})
		hold(t, eng, "k")
		err := process(ctx, nothingRuns(t, locks(t, eng, lockasynq.Serialize("t", "k", core.WithFailFast()))), "t", "")
		var again *lockasynq.RescheduleError
		check(t, errors.As(err, &again) && again.Pattern == "t" && again.RetryAfter == 3*time.Second, "error = %#v, want a RescheduleError with the 3s that holds take here", err)
	})
}

// TestEndsThatAreNoConflict: of the task's own context, and of the task's time while the store is silent.
func TestEndsThatAreNoConflict(t *testing.T) {
	ctx := metadata(t)
	for name, tt := range map[string]struct {
		before func(*testing.T, *locktest.Kit, context.CancelFunc)
		again  bool
		is     error
	}{
		"canceled while it waits": {func(t *testing.T, kit *locktest.Kit, cancel context.CancelFunc) {
			hold(t, kit.Engine, "k")
			time.AfterFunc(time.Second, cancel)
		}, false, context.Canceled},
		"silent store": {func(_ *testing.T, kit *locktest.Kit, _ context.CancelFunc) { kit.Store.Hang() }, true, core.ErrUnavailable},
	} {
		synctest.Test(t, func(t *testing.T) {
			kit := locktest.New(t)
			ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
			defer cancel()
			tt.before(t, kit, cancel)
			err := process(ctx, nothingRuns(t, locks(t, kit.Engine, lockasynq.Serialize("t", "k"))), "t", "")
			check(t, errors.Is(err, tt.is) && isAgain(err) == tt.again && !errors.Is(err, core.ErrHeld), "%s: %v, want %v, to come again: %t", name, err, tt.is, tt.again)
		})
	}
}

// TestHandlerCutOffByClose of the engine: that is the process' doing and not the task's.
func TestHandlerCutOffByClose(t *testing.T) {
	ctx := metadata(t)
	synctest.Test(t, func(t *testing.T) {
		eng, err := core.New(memstore.New()) // whose end is the test's affair
		must(t, err)
		ended, end := context.WithCancel(context.Background())
		end()
		err = process(ctx, locks(t, eng, lockasynq.Serialize("t", "k")).Middleware(handler(func(ctx context.Context, _ *asynq.Task) error {
			go eng.Close(ended)
			<-ctx.Done()
			return ctx.Err()
		})), "t", "")
		check(t, isAgain(err) && errors.Is(err, core.ErrClosed), "error = %v, want a RescheduleError that matches ErrClosed", err)
	})
}

// TestHandlerKeepsTheTasksDeadline: it gets what is left of the task's time, whatever the wait took.
func TestHandlerKeepsTheTasksDeadline(t *testing.T) {
	ctx := metadata(t)
	synctest.Test(t, func(t *testing.T) {
		eng := engine(t)
		holds(t, eng, 900*time.Millisecond)
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		want, _ := ctx.Deadline()
		err := process(ctx, locks(t, eng, lockasynq.Serialize("t", "k")).Middleware(handler(func(ctx context.Context, _ *asynq.Task) error {
			got, ok := ctx.Deadline()
			check(t, ok && got.Equal(want), "the handler's deadline is %v, want %v", got, want)
			<-ctx.Done()
			return ctx.Err()
		})), "t", "")
		check(t, errors.Is(err, context.DeadlineExceeded) && time.Now().Equal(want), "the handler ended with %v at %v, want its deadline %v", err, time.Now(), want)
	})
}

// TestGrantThatComesTooLate: a grant that comes as the wait is given up is given back. A handler must not start
// on a context that has ended, and the task must come again, not be dropped or charged: the key was free.
func TestGrantThatComesTooLate(t *testing.T) {
	ctx := metadata(t)
	slow := observe.Hooks{HoldStart: func(ctx context.Context, l observe.Lease) context.Context {
		if l.Rule() != "" { // between the grant and the handler
			time.Sleep(1500 * time.Millisecond)
		}
		return ctx
	}}
	for _, rule := range []lockasynq.Rule{
		lockasynq.Serialize("t", "k"), lockasynq.Once("t", "k"),
		lockasynq.Serialize("t", "k").OnConflict(lockasynq.Skip), lockasynq.Serialize("t", "k").OnConflict(lockasynq.Fail),
	} {
		synctest.Test(t, func(t *testing.T) {
			eng := engine(t, core.WithHooks(slow))
			ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			told := 0
			l := locks(t, eng, rule).WithErrorHandler(func(_ context.Context, _ *asynq.Task, refused *reasons.Refusal) error {
				told++
				return refused.Answer
			})
			err := process(ctx, nothingRuns(t, l), "t", "")
			check(t, isAgain(err) && errors.Is(err, core.ErrHeld) && told == 1, "error = %v, told %d times, want a RescheduleError", err, told)
			hold(t, eng, "k") // was given back
		})
	}
}
