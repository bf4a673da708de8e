package lockasynq_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/core"
	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
	"github.com/keyturn/keyturn/store/memstore"
)

// What a task is left with, under each policy, when its key stays held.
func TestPoliciesWhileTheKeyIsHeld(t *testing.T) {
	t.Parallel()
	serialize := lockasynq.Serialize("t", "k", core.WithMaxWait(10*time.Millisecond))
	once := lockasynq.Once("t", "k", core.WithMaxWait(10*time.Millisecond))
	short := asynq.Timeout(time.Second)
	tests := []struct {
		policy  lockasynq.Conflict
		enqueue []asynq.Option
		state   asynq.TaskState
		retried int
		skipped uint64
		says    string
	}{
		{policy: lockasynq.Reschedule, state: asynq.TaskStateRetry, says: "held"},
		{policy: lockasynq.Reschedule, enqueue: []asynq.Option{asynq.MaxRetry(0), short}, state: asynq.TaskStateArchived, says: "deadline exceeded"},
		{policy: lockasynq.Wait, enqueue: []asynq.Option{short}, state: asynq.TaskStateRetry, retried: 1, says: "deadline exceeded"},
		{policy: lockasynq.Wait, enqueue: []asynq.Option{asynq.MaxRetry(0), short}, state: asynq.TaskStateArchived, says: "deadline exceeded"},
		{policy: lockasynq.Skip, state: asynq.TaskStateCompleted, skipped: 1},
		{policy: lockasynq.Skip, enqueue: []asynq.Option{asynq.MaxRetry(0)}, state: asynq.TaskStateCompleted, skipped: 1},
		{policy: lockasynq.Fail, state: asynq.TaskStateRetry, retried: 1, says: "attempt failed"},
		{policy: lockasynq.Fail, enqueue: []asynq.Option{asynq.MaxRetry(0)}, state: asynq.TaskStateArchived, says: "attempt failed"},
	}
	for _, tt := range tests {
		for kind, rule := range map[string]lockasynq.Rule{"Serialize": serialize, "Once": once} {
			t.Run(fmt.Sprint(tt.policy, tt.enqueue, kind), func(t *testing.T) {
				t.Parallel()
				q, eng := newQueue(t), engine(t, nil)
				lease := hold(t, eng, "k")
				l := locks(t, eng, rule.OnConflict(tt.policy))
				q.serve(l.Middleware(handler(func(context.Context, *asynq.Task) error {
					t.Error("the handler ran")
					return nil
				})), noForwarding)
				info := q.left(q.enqueue("t", "", tt.enqueue...))
				if info.State != tt.state || info.Retried != tt.retried {
					t.Errorf("task is %v with %d retries used up, want %v with %d", info.State, info.Retried, tt.state, tt.retried)
				}
				if !strings.Contains(info.LastErr, tt.says) || tt.says == "" && info.LastErr != "" {
					t.Errorf("last error = %q, want one with %q", info.LastErr, tt.says)
				}
				host, _ := os.Hostname()
				if strings.Contains(info.LastErr, lease.Owner()) || strings.Contains(info.LastErr, host) {
					t.Errorf("last error = %q tells who holds the key", info.LastErr)
				}
				if n := l.Skipped()["t"]; n != tt.skipped {
					t.Errorf("%d tasks skipped, want %d", n, tt.skipped)
				}
			})
		}
	}
}

// Wait does not go by the rule's bound, and gets the key when it is free.
func TestWaitStaysOnTheWorker(t *testing.T) {
	t.Parallel()
	for _, opt := range []core.CallOption{core.WithFailFast(), core.WithMaxWait(time.Millisecond)} {
		q, seen := newQueue(t), newWatcher()
		eng := engine(t, nil, core.WithHooks(seen.hooks()))
		lease := hold(t, eng, "k")
		l := locks(t, eng, lockasynq.Serialize("t", "k", opt).OnConflict(lockasynq.Wait))
		q.serve(l.Middleware(handler(succeed)), noForwarding)
		id := q.enqueue("t", "")
		receive(t, "the task to ask for its key", seen.asks)
		select {
		case err := <-seen.ends:
			t.Fatalf("the wait ended with %v while the key was held", err)
		case <-time.After(200 * time.Millisecond):
		}
		if err := lease.Release(context.Background()); err != nil {
			t.Fatal(err)
		}
		// Rescheduled, it would stay where it is for an hour.
		if info := q.become(id, asynq.TaskStateCompleted); info.Retried != 0 || info.LastErr != "" {
			t.Errorf("%d retries used up, last error %q; want none of both", info.Retried, info.LastErr)
		}
	}
}

// A policy is about a held key. In an outage nobody knows whether it is, so a
// task is neither dropped nor charged, whatever the policy.
func TestPoliciesInAnOutage(t *testing.T) {
	t.Parallel()
	for _, policy := range []lockasynq.Conflict{lockasynq.Reschedule, lockasynq.Wait, lockasynq.Skip, lockasynq.Fail} {
		t.Run(policy.String(), func(t *testing.T) {
			t.Parallel()
			store := newFaultyStore()
			store.down.Store(true)
			q := newQueue(t)
			l := locks(t, engine(t, store), lockasynq.Serialize("t", "k").OnConflict(policy))
			var runs atomic.Int32
			q.serve(l.Middleware(handler(func(context.Context, *asynq.Task) error { runs.Add(1); return nil })), noForwarding)
			info := q.left(q.enqueue("t", ""))
			if info.State != asynq.TaskStateRetry || info.Retried != 0 || runs.Load() != 0 {
				t.Errorf("task is %v with %d retries used up after %d runs, want rescheduled", info.State, info.Retried, runs.Load())
			}
		})
	}
}

// The last attempt of a task outlives an outage under every policy.
func TestPoliciesInAnOutageOnTheLastAttempt(t *testing.T) {
	ctx := metadata(t, asynq.MaxRetry(0))
	for _, policy := range []lockasynq.Conflict{lockasynq.Reschedule, lockasynq.Wait, lockasynq.Skip, lockasynq.Fail} {
		t.Run(policy.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaultyStore()
				store.down.Store(true)
				time.AfterFunc(time.Minute, func() { store.down.Store(false) })
				ctx, cancel := context.WithTimeout(ctx, time.Hour)
				defer cancel()
				runs := 0
				err := locks(t, engine(t, store), lockasynq.Serialize("t", "k").OnConflict(policy)).
					Middleware(handler(func(context.Context, *asynq.Task) error { runs++; return nil })).
					ProcessTask(ctx, asynq.NewTask("t", nil))
				if err != nil || runs != 1 {
					t.Errorf("error = %v after %d runs, want one run", err, runs)
				}
			})
		})
	}
}

// How long a task waits before its policy counts.
func TestHowLongAPolicyWaits(t *testing.T) {
	ctx := metadata(t)
	tests := []struct {
		policy lockasynq.Conflict
		opts   []core.CallOption
		want   time.Duration
	}{
		{lockasynq.Skip, nil, 0},
		{lockasynq.Skip, []core.CallOption{core.WithMaxWait(time.Minute)}, time.Minute},
		{lockasynq.Skip, []core.CallOption{core.WithMaxWait(core.Forever)}, 30 * time.Minute}, // half of its time
		{lockasynq.Fail, nil, lockasynq.DefaultMaxWait},
		{lockasynq.Fail, []core.CallOption{core.WithFailFast()}, 0},
		{lockasynq.Fail, []core.CallOption{core.WithMaxWait(core.Forever)}, 30 * time.Minute},
		{lockasynq.Wait, []core.CallOption{core.WithFailFast()}, time.Hour},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			eng := engine(t, nil, core.WithMaxHold(core.Forever))
			hold(t, eng, "k")
			ctx, cancel := context.WithTimeout(ctx, time.Hour)
			defer cancel()
			began := time.Now()
			err := nothingRuns(t, locks(t, eng, lockasynq.Serialize("t", "k", tt.opts...).OnConflict(tt.policy))).
				ProcessTask(ctx, asynq.NewTask("t", nil))
			if waited := time.Since(began); waited != tt.want {
				t.Errorf("%v: waited %v, want %v", tt.policy, waited, tt.want)
			}
			var failed *lockasynq.ConflictError
			if is := errors.As(err, &failed); is != (tt.policy == lockasynq.Fail) || is && (failed.Pattern != "t" || !errors.Is(err, core.ErrHeld)) {
				t.Errorf("%v: error = %v, want a ConflictError about the held key from Fail alone", tt.policy, err)
			}
		})
	}
}

// Too many waiters is overload, and no sign that somebody does this work.
func TestPoliciesWhenTooManyWait(t *testing.T) {
	ctx := metadata(t)
	for policy, check := range map[lockasynq.Conflict]func(error) bool{
		lockasynq.Skip: func(err error) bool { var e *lockasynq.RescheduleError; return errors.As(err, &e) },
		lockasynq.Fail: func(err error) bool { var e *lockasynq.ConflictError; return errors.As(err, &e) },
		lockasynq.Wait: func(err error) bool { return err == nil },
	} {
		t.Run(policy.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				eng := engine(t, nil, core.WithMaxWaiters(1))
				lease := hold(t, eng, "k")
				waiter := make(chan error, 1)
				go func() { waiter <- eng.Do(ctx, "k", func(context.Context) error { return nil }) }()
				synctest.Wait()
				time.AfterFunc(10*time.Second, func() { _ = lease.Release(context.Background()) })
				l := locks(t, eng, lockasynq.Serialize("t", "k", core.WithMaxWait(time.Minute)).OnConflict(policy))
				err := l.Middleware(handler(succeed)).ProcessTask(ctx, asynq.NewTask("t", nil))
				if !check(err) || err != nil && !errors.Is(err, core.ErrTooManyWaiters) || l.Skipped()["t"] != 0 {
					t.Errorf("error = %v with %d skipped", err, l.Skipped()["t"])
				}
				if err := <-waiter; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A grant that comes as the wait is given up says that nobody has the key: the
// task must come again, not be dropped or charged.
func TestPoliciesWithAGrantThatComesTooLate(t *testing.T) {
	ctx := metadata(t)
	for _, policy := range []lockasynq.Conflict{lockasynq.Skip, lockasynq.Fail} {
		synctest.Test(t, func(t *testing.T) {
			eng := engine(t, nil, core.WithHooks(slowObserver{d: 1500 * time.Millisecond}.hooks()))
			ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			err := nothingRuns(t, locks(t, eng, lockasynq.Serialize("t", "k").OnConflict(policy))).ProcessTask(ctx, asynq.NewTask("t", nil))
			var again *lockasynq.RescheduleError
			if !errors.As(err, &again) {
				t.Errorf("%v: error = %v, want a RescheduleError", policy, err)
			}
		})
	}
}

// Not parallel: it looks at the default log.
func TestSkippedTasksAreLogged(t *testing.T) {
	ctx := metadata(t, asynq.TaskID("the-id"))
	log := captureLog(t)
	eng := engine(t, nil)
	lease := hold(t, eng, "k")
	l := locks(t, eng, lockasynq.Serialize("cache:", "k").OnConflict(lockasynq.Skip), lockasynq.Serialize("other", "k"))
	if err := nothingRuns(t, l).ProcessTask(ctx, asynq.NewTask("cache:rebuild", nil)); err != nil {
		t.Fatalf("error = %v, want success", err)
	}
	for _, want := range []string{"rule=cache:", "type=cache:rebuild", "id=the-id", "queue=default", "held"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("log = %s, want %s", log, want)
		}
	}
	if strings.Contains(log.String(), lease.Owner()) {
		t.Errorf("log = %s tells who holds the key", log)
	}
	if got := fmt.Sprint(l.Skipped()); got != "map[cache::1]" {
		t.Errorf("Skipped() = %s, want one for cache: and nothing about rules that skip none", got)
	}
}

func TestUnknownPolicy(t *testing.T) {
	t.Parallel()
	for _, policy := range []lockasynq.Conflict{-1, lockasynq.Fail + 1} {
		_, err := lockasynq.New(engine(t, nil), lockasynq.Serialize("t", "k").OnConflict(policy))
		if !errors.Is(err, core.ErrInvalidOption) || !strings.Contains(err.Error(), policy.String()) {
			t.Errorf("New() error = %v, want one about %v", err, policy)
		}
	}
}

// A cache is rebuilt by one worker; who comes meanwhile has nothing to do.
func ExampleRule_OnConflict() {
	eng, _ := core.New(memstore.New())
	defer eng.Close(context.Background())
	locks, _ := lockasynq.New(eng,
		lockasynq.Serialize("cache:rebuild", "cache:{payload.name}").OnConflict(lockasynq.Skip),
	)
	task := asynq.NewTask("cache:rebuild", []byte(`{"name":"users"}`))

	lease, _ := eng.Acquire(context.Background(), "cache:users") // another worker is at it
	defer lease.Release(context.Background())
	err := locks.Middleware(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		fmt.Println("rebuilding")
		return nil
	})).ProcessTask(context.Background(), task)
	fmt.Println(err, locks.Skipped())
	// Output: <nil> map[cache:rebuild:1]
}

// What rules further in say is for asynq: to wait for their key under the outer
// one's would keep it from everybody.
func TestWaitLeavesInnerRulesTheirSay(t *testing.T) {
	ctx := metadata(t)
	synctest.Test(t, func(t *testing.T) {
		eng := engine(t, nil)
		hold(t, eng, "inner")
		inner := locks(t, eng, lockasynq.Serialize("t", "inner", core.WithFailFast()))
		outer := locks(t, eng, lockasynq.Serialize("t", "outer").OnConflict(lockasynq.Wait))
		ctx, cancel := context.WithTimeout(ctx, time.Hour)
		defer cancel()
		began := time.Now()
		err := outer.Middleware(nothingRuns(t, inner)).ProcessTask(ctx, asynq.NewTask("t", nil))
		var again *lockasynq.RescheduleError
		if !errors.As(err, &again) || again.Times != 1 || !errors.Is(err, core.ErrHeld) || time.Since(began) != 0 {
			t.Errorf("error = %v after %v, want the inner rule's RescheduleError at once", err, time.Since(began))
		}
	})
}
