package lockasynq_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
)

func TestHowLongATaskWaits(t *testing.T) {
	ctx := metadata(t)
	tests := []struct {
		name    string
		opts    []core.CallOption
		timeout time.Duration
		want    time.Duration
		is      error
	}{
		{name: "the package's default", timeout: time.Hour, want: lockasynq.DefaultMaxWait, is: core.ErrWaitTimeout},
		{name: "the rule's, longer", opts: []core.CallOption{core.WithMaxWait(time.Minute)}, timeout: time.Hour, want: time.Minute, is: core.ErrWaitTimeout},
		{name: "the rule's, shorter", opts: []core.CallOption{core.WithMaxWait(time.Millisecond)}, timeout: time.Hour, want: time.Millisecond, is: core.ErrWaitTimeout},
		{name: "not at all", opts: []core.CallOption{core.WithFailFast()}, timeout: time.Hour, want: 0, is: core.ErrHeld},
		{name: "half of the task's time", timeout: 2 * time.Second, want: time.Second, is: core.ErrHeld},
		{name: "half of the task's time, the rule has no bound", opts: []core.CallOption{core.WithMaxWait(core.Forever)}, timeout: time.Minute, want: 30 * time.Second, is: core.ErrHeld},
		{name: "a task without a deadline", want: lockasynq.DefaultMaxWait, is: core.ErrWaitTimeout},
	}
	for _, tt := range tests {
		for kind, rule := range map[string]lockasynq.Rule{
			"Serialize": lockasynq.Serialize("t", "k", tt.opts...),
			"Once":      lockasynq.Once("t", "k", tt.opts...),
		} {
			t.Run(tt.name+", "+kind, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					eng := engine(t, nil, core.WithMaxWait(time.Hour)) // which does not count
					hold(t, eng, "k")
					ctx, cancel := ctx, context.CancelFunc(func() {})
					if tt.timeout > 0 {
						ctx, cancel = context.WithTimeout(ctx, tt.timeout)
					}
					defer cancel()
					began := time.Now()
					err := nothingRuns(t, locks(t, eng, rule)).ProcessTask(ctx, asynq.NewTask("t", nil))
					if waited := time.Since(began); waited != tt.want {
						t.Errorf("waited %v, want %v", waited, tt.want)
					}
					var again *lockasynq.RescheduleError
					if !errors.As(err, &again) || again.Pattern != "t" || !errors.Is(err, tt.is) || !errors.Is(err, core.ErrHeld) {
						t.Errorf("error = %v, want a RescheduleError that matches %v", err, tt.is)
					}
				})
			})
		}
	}
}

// The engine's estimate of when the key is free reaches asynq.
func TestRefusalSaysWhenToComeAgain(t *testing.T) {
	ctx := metadata(t)
	synctest.Test(t, func(t *testing.T) {
		eng := engine(t, nil, core.WithMaxWaiters(1))
		h := nothingRuns(t, locks(t, eng, lockasynq.Serialize("t", "k"), lockasynq.Serialize("fast", "k", core.WithFailFast())))
		if err := eng.Do(ctx, "other", func(context.Context) error { time.Sleep(3 * time.Second); return nil }); err != nil {
			t.Fatal(err)
		}
		hold(t, eng, "k")
		waiting := make(chan struct{})
		go func() {
			defer close(waiting)
			_ = h.ProcessTask(ctx, asynq.NewTask("t", nil)) // until the rule's wait is over
		}()
		synctest.Wait()
		for typename, is := range map[string]error{"t": core.ErrTooManyWaiters, "fast": core.ErrHeld} {
			var again *lockasynq.RescheduleError
			err := h.ProcessTask(ctx, asynq.NewTask(typename, nil))
			if !errors.As(err, &again) || !errors.Is(err, is) || again.RetryAfter != 3*time.Second {
				t.Errorf("%s: error = %#v, want a RescheduleError that matches %v, after the 3s that holds take here", typename, err, is)
			}
		}
		<-waiting
	})
}

// The end of the task's own context is nothing to come again for.
func TestTaskThatEndsWhileItWaits(t *testing.T) {
	ctx := metadata(t)
	synctest.Test(t, func(t *testing.T) {
		eng := engine(t, nil)
		hold(t, eng, "k")
		ctx, cancel := context.WithCancel(ctx)
		time.AfterFunc(time.Second, cancel)
		err := nothingRuns(t, locks(t, eng, lockasynq.Serialize("t", "k"))).ProcessTask(ctx, asynq.NewTask("t", nil))
		var again *lockasynq.RescheduleError
		if !errors.Is(err, context.Canceled) || errors.As(err, &again) {
			t.Errorf("error = %v, want context.Canceled and no RescheduleError", err)
		}
	})
}

// A silent store is an outage also when it is the task's time that ends the
// wait for it.
func TestSilentStoreIsNotContention(t *testing.T) {
	ctx := metadata(t)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		l := locks(t, engine(t, silentStore{newFaultyStore()}), lockasynq.Serialize("t", "k"))
		err := nothingRuns(t, l).ProcessTask(ctx, asynq.NewTask("t", nil))
		var again *lockasynq.RescheduleError
		if !errors.As(err, &again) || !errors.Is(err, core.ErrUnavailable) || errors.Is(err, core.ErrHeld) {
			t.Errorf("error = %v, want a RescheduleError that matches ErrUnavailable alone", err)
		}
	})
}

type silentStore struct{ *faultyStore }

func (silentStore) Acquire(ctx context.Context, _ driver.Request) (driver.Grant, error) {
	<-ctx.Done()
	return driver.Grant{}, &core.UnavailableError{Op: "acquire", Err: ctx.Err()}
}

// The handler gets what is left of the task's time, whatever the wait took.
func TestHandlerKeepsTheTasksDeadline(t *testing.T) {
	ctx := metadata(t)
	synctest.Test(t, func(t *testing.T) {
		eng := engine(t, nil)
		lease := hold(t, eng, "k")
		time.AfterFunc(900*time.Millisecond, func() { _ = lease.Release(context.Background()) })
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		want, _ := ctx.Deadline()
		err := locks(t, eng, lockasynq.Serialize("t", "k")).Middleware(handler(func(ctx context.Context, _ *asynq.Task) error {
			if got, ok := ctx.Deadline(); !ok || !got.Equal(want) {
				t.Errorf("the handler's deadline is %v, want %v", got, want)
			}
			<-ctx.Done()
			return ctx.Err()
		})).ProcessTask(ctx, asynq.NewTask("t", nil))
		if !errors.Is(err, context.DeadlineExceeded) || !time.Now().Equal(want) {
			t.Errorf("the handler ended with %v at %v, want its deadline %v", err, time.Now(), want)
		}
	})
}

// slowObserver takes its time between the grant and the handler.
type slowObserver struct {
	d time.Duration
}

func (o slowObserver) hooks() observe.Hooks {
	return observe.Hooks{HoldStart: o.HoldStart}
}

func (o slowObserver) HoldStart(ctx context.Context, _ observe.Lease) context.Context {
	time.Sleep(o.d)
	return ctx
}

// A grant that comes as the wait is given up is given back: a handler must not
// start on a context that has ended, and the task not be lost.
func TestGrantThatComesTooLate(t *testing.T) {
	ctx := metadata(t)
	for kind, rule := range map[string]lockasynq.Rule{
		"Serialize": lockasynq.Serialize("t", "k"),
		"Once":      lockasynq.Once("t", "k"),
	} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				eng := engine(t, nil, core.WithHooks(slowObserver{d: 1500 * time.Millisecond}.hooks()))
				ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
				defer cancel()
				err := nothingRuns(t, locks(t, eng, rule)).ProcessTask(ctx, asynq.NewTask("t", nil))
				var again *lockasynq.RescheduleError
				if !errors.As(err, &again) || !errors.Is(err, core.ErrHeld) {
					t.Errorf("error = %v, want a RescheduleError", err)
				}
				lease, err := eng.TryAcquire(context.Background(), "k")
				if err != nil {
					t.Fatalf("the key was not given back: %v", err)
				}
				_ = lease.Release(context.Background())
			})
		})
	}
}

// An outage archives nothing, not even what has no retries left: the last
// attempt goes on until the store is back.
func TestOutageOnTheLastAttemptIsWaitedOut(t *testing.T) {
	ctx := metadata(t, asynq.MaxRetry(0))
	for _, kept := range []bool{true, false} {
		t.Run(fmt.Sprintf("the record was kept: %v", kept), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaultyStore()
				store.records = kept
				outage := func() {
					store.down.Store(true)
					store.mute.Store(true)
					time.AfterFunc(time.Minute, func() {
						store.down.Store(false)
						store.mute.Store(false)
					})
				}
				outage()
				runs := 0
				err := locks(t, engine(t, store), lockasynq.Once("t", "k")).Middleware(handler(func(context.Context, *asynq.Task) error {
					runs++
					if runs == 1 { // and once more, when it is done
						outage()
					}
					return nil
				})).ProcessTask(ctx, asynq.NewTask("t", nil))
				// Work without a record is done again: at least once.
				if want := map[bool]int{true: 1, false: 2}[kept]; err != nil || runs != want {
					t.Errorf("error = %v after %d runs, want none and %d", err, runs, want)
				}
			})
		})
	}
}

// Without an end of the conflict or the outage, the task's own time ends it, and
// what becomes of the task is asynq's decision.
func TestLastAttemptEndsWithTheTask(t *testing.T) {
	ctx := metadata(t, asynq.MaxRetry(0))
	for name, prepare := range map[string]func(*testing.T, *core.Engine, *faultyStore){
		"held":   func(t *testing.T, eng *core.Engine, _ *faultyStore) { hold(t, eng, "k") },
		"outage": func(_ *testing.T, _ *core.Engine, store *faultyStore) { store.down.Store(true) },
		"closed": func(_ *testing.T, eng *core.Engine, _ *faultyStore) { _ = eng.Close(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaultyStore()
				eng := engine(t, store, core.WithMaxHold(core.Forever))
				prepare(t, eng, store)
				ctx, cancel := context.WithTimeout(ctx, time.Hour)
				defer cancel()
				began := time.Now()
				err := nothingRuns(t, locks(t, eng, lockasynq.Serialize("t", "k", core.WithFailFast()))).ProcessTask(ctx, asynq.NewTask("t", nil))
				if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Hour {
					t.Errorf("error = %v after %v, want the deadline after an hour", err, time.Since(began))
				}
			})
		})
	}
}

// Closing the engine cuts a handler off. That is the process' doing and not the
// task's.
func TestHandlerCutOffByClose(t *testing.T) {
	ctx := metadata(t)
	synctest.Test(t, func(t *testing.T) {
		eng, err := core.New(newFaultyStore())
		if err != nil {
			t.Fatal(err)
		}
		ended, end := context.WithCancel(context.Background())
		end()
		err = locks(t, eng, lockasynq.Serialize("t", "k")).Middleware(handler(func(ctx context.Context, _ *asynq.Task) error {
			go eng.Close(ended)
			<-ctx.Done()
			return ctx.Err()
		})).ProcessTask(ctx, asynq.NewTask("t", nil))
		var again *lockasynq.RescheduleError
		if !errors.As(err, &again) || !errors.Is(err, core.ErrClosed) {
			t.Errorf("error = %v, want a RescheduleError that matches ErrClosed", err)
		}
	})
}
