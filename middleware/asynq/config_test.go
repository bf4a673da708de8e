package lockasynq_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/core"
	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
)

func TestIsFailure(t *testing.T) {
	t.Parallel()
	again := &lockasynq.RescheduleError{Err: core.ErrHeld}
	errMild := errors.New("mild")
	users := func(err error) bool { return !errors.Is(err, errMild) }
	tests := []struct {
		name string
		next func(error) bool
		err  error
		want bool
	}{
		{"rescheduling", nil, again, false},
		{"rescheduling, wrapped by a middleware outside", nil, fmt.Errorf("logged: %w", again), false},
		{"rescheduling, and the user would fail it", users, again, false},
		{"a handler's error about a lock", nil, &core.HeldError{Key: "k"}, true},
		{"a lost lease", nil, &core.LeaseLostError{}, true},
		{"any error, asynq's default", nil, errMild, true},
		{"no error, asynq's default", nil, nil, false},
		{"the user's no failure", users, errMild, false},
		{"the user's failure", users, core.ErrHeld, true},
	}
	for _, tt := range tests {
		if got := lockasynq.IsFailure(tt.next)(tt.err); got != tt.want {
			t.Errorf("%s: IsFailure = %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestRetryDelay(t *testing.T) {
	t.Parallel()
	delay := lockasynq.RetryDelay(nil)
	for _, tt := range []struct{ after, least, most time.Duration }{
		{0, time.Second, 1500 * time.Millisecond}, // nothing known
		{-time.Second, time.Second, 1500 * time.Millisecond},
		{4 * time.Second, 4 * time.Second, 6 * time.Second},
		{24 * time.Hour, 10 * time.Second, 15 * time.Second},
	} {
		seen := make(map[time.Duration]bool)
		for range 50 {
			d := delay(7, fmt.Errorf("wrapped: %w", &lockasynq.RescheduleError{RetryAfter: tt.after, Err: core.ErrHeld}), nil)
			if d < tt.least || d > tt.most {
				t.Fatalf("RetryAfter %v: delay %v, want %v to %v", tt.after, d, tt.least, tt.most)
			}
			seen[d] = true
		}
		if len(seen) < 2 {
			t.Errorf("RetryAfter %v: every delay is the same", tt.after)
		}
	}

	// Asynq's own begins at 15 seconds.
	if d := delay(0, errors.New("other"), nil); d < 15*time.Second {
		t.Errorf("delay after a failure = %v, want asynq's default", d)
	}
	task, failure := asynq.NewTask("t", nil), errors.New("other")
	users := lockasynq.RetryDelay(func(n int, err error, got *asynq.Task) time.Duration {
		if err != failure || got != task {
			t.Errorf("the user's function got %v and %v", err, got)
		}
		return time.Duration(n) * time.Hour
	})
	if d := users(3, failure, task); d != 3*time.Hour {
		t.Errorf("delay after a failure = %v, want the user's", d)
	}
}

// On a server, our functions and the user's each judge their own errors.
func TestUsersFunctionsKeepTheirSay(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	eng := engine(t, nil)
	errMild := errors.New("mild")
	l := locks(t, eng, lockasynq.Serialize("held", "k", core.WithFailFast()), lockasynq.Serialize("free", "{id}"))
	hold(t, eng, "k")
	q.serve(l.Middleware(handler(func(_ context.Context, task *asynq.Task) error {
		if string(task.Payload()) == "mild" {
			return errMild
		}
		return errors.New("severe")
	})), noForwarding, func(cfg *asynq.Config) {
		cfg.IsFailure = lockasynq.IsFailure(func(err error) bool { return !errors.Is(err, errMild) })
		cfg.RetryDelayFunc = lockasynq.RetryDelay(func(int, error, *asynq.Task) time.Duration { return time.Hour })
	})
	for _, tt := range []struct {
		typename, payload string
		retried           int
		hours             bool
	}{
		{"free", "severe", 1, true},
		{"free", "mild", 0, true},
		{"held", "", 0, false},
	} {
		info := q.become(q.enqueue(tt.typename, tt.payload), asynq.TaskStateRetry)
		late := time.Until(info.NextProcessAt) > 30*time.Minute
		if info.Retried != tt.retried || late != tt.hours {
			t.Errorf("%s %s: %d retries used up, next at %v; want %d, and in an hour: %v",
				tt.typename, tt.payload, info.Retried, info.NextProcessAt, tt.retried, tt.hours)
		}
	}
}

// A server that was not told about reschedulings counts them. What it must not
// do is archive the task: its last attempt waits.
func TestServerWithoutOurFunctions(t *testing.T) {
	t.Parallel()
	q, seen := newQueue(t), newWatcher()
	eng := engine(t, nil, core.WithHooks(seen.hooks()))
	l := locks(t, eng, lockasynq.Serialize("t", "k", core.WithFailFast()))
	lease := hold(t, eng, "k")
	q.serve(l.Middleware(handler(succeed)), func(cfg *asynq.Config) {
		cfg.IsFailure, cfg.RetryDelayFunc = nil, atOnce
	})
	id := q.enqueue("t", "", asynq.MaxRetry(2))
	for range 2 {
		if err := receive(t, "a refusal", seen.ends); !errors.Is(err, core.ErrHeld) {
			t.Fatalf("acquisition ended with %v, want ErrHeld", err)
		}
	}
	for range 3 {
		receive(t, "the last attempt to ask", seen.asks)
	}
	if err := lease.Release(context.Background()); err != nil {
		t.Fatal(err)
	}
	if info := q.become(id, asynq.TaskStateCompleted); info.Retried != 2 {
		t.Errorf("%d retries were used up, want 2", info.Retried)
	}
}

// Not parallel: it looks at the default log.
func TestWarningAboutAServerWithoutOurFunctions(t *testing.T) {
	ctx := metadata(t)
	isFailure, retryDelay := lockasynq.IsFailure(nil), lockasynq.RetryDelay(atOnce)
	both := func(err error) { isFailure(err); retryDelay(0, err, nil) }
	tests := []struct {
		name   string
		ctx    context.Context
		server func(error)
		want   string // a part of the warning; "": none
	}{
		{"both are installed", ctx, both, ""},
		{"neither", ctx, func(error) {}, "asks_IsFailure=false asks_RetryDelay=false"},
		{"IsFailure alone", ctx, func(err error) { isFailure(err) }, "asks_IsFailure=true asks_RetryDelay=false"},
		{"RetryDelay alone", ctx, func(err error) { retryDelay(0, err, nil) }, "asks_IsFailure=false asks_RetryDelay=true"},
		{"there is no server", context.Background(), func(error) {}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := captureLog(t)
				eng := engine(t, nil)
				hold(t, eng, "k")
				inner := locks(t, eng, lockasynq.Serialize("t", "k", core.WithFailFast()))
				// Rules inside of rules: the outer ones are not told about.
				outer := locks(t, eng, lockasynq.Serialize("t", "another"))
				h := outer.Middleware(nothingRuns(t, inner))
				for i := range 5 {
					err := h.ProcessTask(tt.ctx, asynq.NewTask("t", nil))
					if i < 2 && log.Len() > 0 {
						t.Errorf("warned when asynq may not have had the time to ask: %s", log)
					}
					tt.server(err)
					time.Sleep(6 * time.Second)
				}
				switch n := strings.Count(log.String(), "lockasynq:"); {
				case tt.want == "" && n != 0:
					t.Errorf("log = %s, want nothing", log)
				case tt.want != "" && (n != 1 || !strings.Contains(log.String(), tt.want)):
					t.Errorf("log = %s, want one warning with %q", log, tt.want)
				}
			})
		})
	}
}

func captureLog(t *testing.T) *bytes.Buffer {
	before := slog.Default()
	t.Cleanup(func() { slog.SetDefault(before) })
	var log bytes.Buffer
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	return &log
}
