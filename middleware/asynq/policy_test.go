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
	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
	"github.com/keyturn/keyturn/store/memstore"
)

// TestTooManyWait is overload, and no sign that somebody does this work. The task that stays on its worker waits that
// out, too.
func TestTooManyWait(t *testing.T) {
	ctx, last := metadata(t), metadata(t, asynq.MaxRetry(0))
	for _, tt := range []struct {
		policy lockasynq.Conflict
		ctx    context.Context
		check  func(error) bool
	}{
		{lockasynq.Reschedule, ctx, isAgain},
		{lockasynq.Reschedule, last, func(err error) bool { return err == nil }},
		{lockasynq.Skip, ctx, isAgain},
		{lockasynq.Fail, ctx, func(err error) bool { var e *lockasynq.ConflictError; return errors.As(err, &e) }},
		{lockasynq.Wait, ctx, func(err error) bool { return err == nil }},
	} {
		synctest.Test(t, func(t *testing.T) {
			eng := engine(t, core.WithMaxWaiters(1))
			holds(t, eng, 10*time.Second)
			waiter := make(chan error, 1)
			go func() { waiter <- eng.Do(ctx, "k", func(context.Context) error { return nil }) }()
			synctest.Wait()
			l := locks(t, eng, lockasynq.Serialize("t", "k", core.WithMaxWait(time.Minute)).OnConflict(tt.policy))
			err := process(tt.ctx, l.Middleware(handler(succeed)), "t", "")
			if !tt.check(err) || err != nil && !errors.Is(err, core.ErrTooManyWaiters) || l.Skipped()["t"] != 0 {
				t.Errorf("%v: error = %v with %d skipped", tt.policy, err, l.Skipped()["t"])
			}
			wantNil(t, <-waiter)
		})
	}
}

// TestWaitLeavesInnerRulesTheirSay: what rules further in say is for asynq. To wait for their key under the outer
// one's would keep it from everybody.
func TestWaitLeavesInnerRulesTheirSay(t *testing.T) {
	ctx := metadata(t)
	synctest.Test(t, func(t *testing.T) {
		eng := engine(t)
		hold(t, eng, "inner")
		inner := locks(t, eng, lockasynq.Serialize("t", "inner", core.WithFailFast()))
		outer := locks(t, eng, lockasynq.Serialize("t", "outer").OnConflict(lockasynq.Wait))
		began := time.Now()
		err := process(ctx, outer.Middleware(nothingRuns(t, inner)), "t", "")
		var again *lockasynq.RescheduleError
		if !errors.As(err, &again) || again.Times != 1 || !errors.Is(err, core.ErrHeld) || time.Since(began) != 0 {
			t.Errorf("error = %v after %v, want the inner rule's RescheduleError at once", err, time.Since(began))
		}
	})
}

// TestSkippedTasksAreTold to the log, the hooks and the program, without who holds the key.
// Not parallel: it looks at the default log.
func TestSkippedTasksAreTold(t *testing.T) {
	ctx := metadata(t, asynq.TaskID("the-id"))
	log := captureLog(t)
	var told []string
	eng := engine(t, core.WithHooks(observe.Hooks{Skipped: func(_ context.Context, s observe.Skip) {
		told = append(told, fmt.Sprint(s.Rule, " ", s.Reason))
	}}))
	lease := hold(t, eng, "k")
	l := locks(t, eng, lockasynq.Serialize("cache:", "k").OnConflict(lockasynq.Skip), lockasynq.Serialize("other", "k"),
		lockasynq.Serialize("index", "i").KeepLatestBy("{payload}"))
	if err := process(ctx, nothingRuns(t, l), "cache:rebuild", ""); err != nil {
		t.Fatalf("error = %v, want success", err)
	}
	for _, version := range []string{"5", "4"} {
		wantNil(t, process(ctx, l.Middleware(handler(succeed)), "index", version))
	}
	wantText(t, log.String(), "rule=cache:", "type=cache:rebuild", "id=the-id", "queue=default", "held", "version 4 is older than 5")
	wantText(t, fmt.Sprint(told, l.Skipped()), "[cache: held index superseded] map[cache::1 index:1]")
	if strings.Contains(log.String(), lease.Owner()) {
		t.Errorf("log = %s tells who holds the key", log)
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
