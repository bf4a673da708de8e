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
	"github.com/keyturn/keyturn/locktest"
	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
)

func TestIsFailure(t *testing.T) {
	t.Parallel()
	again := &lockasynq.RescheduleError{Err: core.ErrHeld}
	errMild := errors.New("mild")
	users := func(err error) bool { return !errors.Is(err, errMild) }
	for name, tt := range map[string]struct {
		next func(error) bool
		err  error
		want bool
	}{
		"rescheduling":                             {nil, again, false},
		"rescheduling, wrapped by a middleware":    {nil, fmt.Errorf("logged: %w", again), false},
		"rescheduling, and the user would fail it": {users, again, false},
		"a handler's error about a lock":           {nil, &core.HeldError{Key: "k"}, true},
		"any error, asynq's default":               {nil, errMild, true},
		"the user's no failure":                    {users, errMild, false},
		"the user's failure":                       {users, core.ErrHeld, true},
	} {
		got := lockasynq.IsFailure(tt.next)(tt.err)
		check(t, got == tt.want, "%s: IsFailure = %v, want %v", name, got, tt.want)
	}
}

// TestRetryDelay grows each time that the same task comes again, with up to half more at random.
func TestRetryDelay(t *testing.T) {
	t.Parallel()
	delay := lockasynq.RetryDelay(nil)
	for _, tt := range []struct {
		after time.Duration
		times int
		least time.Duration
	}{
		{0, 0, time.Second}, // nothing known
		{0, 2, 2 * time.Second},
		{0, 7, time.Minute},
		{0, 1 << 40, time.Minute},
		{4 * time.Second, 0, 4 * time.Second},
		{3 * time.Second, 2, 6 * time.Second},
		{24 * time.Hour, 1, 10 * time.Second},
		{24 * time.Hour, 4, time.Minute},
	} {
		seen := make(map[time.Duration]bool)
		for range 50 {
			d := delay(7, fmt.Errorf("wrapped: %w", &lockasynq.RescheduleError{RetryAfter: tt.after, Times: tt.times, Err: core.ErrHeld}), nil)
			if d < tt.least || d > tt.least*3/2 {
				t.Fatalf("after %v, for the %d. time: delay %v, want %v and up to half more", tt.after, tt.times, d, tt.least)
			}
			seen[d] = true
		}
		check(t, len(seen) >= 2, "after %v, for the %d. time: every delay is the same", tt.after, tt.times)
	}

	// Asynq's own begins at 15 seconds.
	if d := delay(0, errors.New("other"), nil); d < 15*time.Second {
		t.Errorf("delay after a failure = %v, want asynq's default", d)
	}
	task, failure := asynq.NewTask("t", nil), errors.New("other")
	users := lockasynq.RetryDelay(func(n int, err error, got *asynq.Task) time.Duration {
		check(t, err == failure && got == task, "the user's function got %v and %v", err, got)
		return time.Duration(n) * time.Hour
	})
	if d := users(3, failure, task); d != 3*time.Hour {
		t.Errorf("delay after a failure = %v, want the user's", d)
	}
}

// TestRescheduleEvery: the delay does not grow while a key is held. An outage is no held key, so the delay grows as
// without the option.
func TestRescheduleEvery(t *testing.T) {
	t.Parallel()
	kit := locktest.New(t)
	hold(t, kit.Engine, "k")
	h := nothingRuns(t, locks(t, kit.Engine, lockasynq.Serialize("t", "k", core.WithFailFast()).RescheduleEvery(time.Second)))
	for _, outage := range []bool{false, true} {
		if outage {
			kit.Store.Refuse()
		}
		err := process(context.Background(), h, "t", "")
		var again *lockasynq.RescheduleError
		if !errors.As(err, &again) || again.Fixed == outage || (again.RetryAfter > time.Second) != outage {
			t.Fatalf("outage %v: error = %#v", outage, err)
		}
		again.Times = 10
		if d := lockasynq.RetryDelay(nil)(0, err, nil); outage && d < time.Minute || !outage && d != time.Second {
			t.Errorf("outage %v: delay %v for the tenth time", outage, d)
		}
	}
	kit.Store.Heal()
}

// TestReschedulingsInARow: each task has its own count, which starts over when it had its turn.
func TestReschedulingsInARow(t *testing.T) {
	contexts := []context.Context{metadata(t, asynq.TaskID("a")), metadata(t, asynq.TaskID("b")), context.Background()}
	eng := engine(t)
	failure := errors.New("the handler's")
	h := locks(t, eng, lockasynq.Serialize("t", "k", core.WithFailFast())).
		Middleware(handler(func(context.Context, *asynq.Task) error { return failure }))
	expect := func(task int, want string) {
		t.Helper()
		err := process(contexts[task], h, "t", "")
		got := fmt.Sprint(err)
		var again *lockasynq.RescheduleError
		if errors.As(err, &again) {
			got = fmt.Sprint("again ", again.Times)
		}
		check(t, got == want, "task %d: %s, want %s", task, got, want)
	}
	lease := hold(t, eng, "k")
	expect(0, "again 1")
	expect(0, "again 2")
	expect(1, "again 1")
	expect(2, "again 0") // nobody knows which task it is
	expect(2, "again 0")
	expect(0, "again 3")
	_ = lease.Release(context.Background())
	expect(0, failure.Error())
	hold(t, eng, "k")
	expect(0, "again 1")
	expect(1, "again 2")
	for range 300 {
		_ = process(contexts[1], h, "t", "")
	}
	expect(1, "again 255") // as far as it counts
}

// Not parallel: it looks at the default log.
func TestWarningAboutAServerWithoutOurFunctions(t *testing.T) {
	ctx := metadata(t)
	isFailure, retryDelay := lockasynq.IsFailure(nil), lockasynq.RetryDelay(atOnce)
	for name, tt := range map[string]struct {
		ctx    context.Context
		server func(error)
		want   string // a part of the warning; "": none
	}{
		"both are installed": {ctx, func(err error) { isFailure(err); retryDelay(0, err, nil) }, ""},
		"neither":            {ctx, func(error) {}, "asks_IsFailure=false asks_RetryDelay=false"},
		"IsFailure alone":    {ctx, func(err error) { isFailure(err) }, "asks_IsFailure=true asks_RetryDelay=false"},
		"RetryDelay alone":   {ctx, func(err error) { retryDelay(0, err, nil) }, "asks_IsFailure=false asks_RetryDelay=true"},
		"there is no server": {context.Background(), func(error) {}, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			log := captureLog(t)
			eng := engine(t)
			hold(t, eng, "k")
			inner := locks(t, eng, lockasynq.Serialize("t", "k", core.WithFailFast()))
			// Rules inside of rules: the outer ones are not told about.
			h := locks(t, eng, lockasynq.Serialize("t", "another")).Middleware(nothingRuns(t, inner))
			for i := range 5 {
				err := process(tt.ctx, h, "t", "")
				check(t, i >= 2 || log.Len() <= 0, "%s: warned when asynq may not have had the time to ask: %s", name, log)
				tt.server(err)
				time.Sleep(6 * time.Second)
			}
			if n := strings.Count(log.String(), "lockasynq:"); (n == 1) != (tt.want != "") || n > 1 || !strings.Contains(log.String(), tt.want) {
				t.Errorf("%s: log = %s, want one warning with %q, or none", name, log, tt.want)
			}
		})
	}
}
