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

// TestSkippedTasksAreTold to the log, the hooks and the program, without the key and its holder.
// Not parallel: it looks at the default log.
func TestSkippedTasksAreTold(t *testing.T) {
	ctx := metadata(t, asynq.TaskID("cache:/ann"))
	log := captureLog(t)
	var told []string
	eng := engine(t, core.WithHooks(observe.Hooks{Skipped: func(_ context.Context, s observe.Skip) {
		told = append(told, fmt.Sprint(s.Rule, " ", s.Reason))
	}}), core.WithKeyFilter(func(string) string { return "***" }))
	lease := hold(t, eng, "ann")
	l := locks(t, eng, lockasynq.Serialize("cache:", "ann").OnConflict(lockasynq.Skip), lockasynq.Serialize("other", "ann"),
		lockasynq.Serialize("index", "i").KeepLatestBy("{payload}"))
	if err := process(ctx, nothingRuns(t, l), "cache:rebuild", ""); err != nil {
		t.Fatalf("error = %v, want success", err)
	}
	for _, version := range []string{"5", "4"} {
		wantNil(t, process(metadata(t), l.Middleware(handler(succeed)), "index", version))
	}
	wantText(t, log.String(), "rule=cache:", "type=cache:rebuild", "id=cache:/***", "queue=default", "held", "version 4 is older than 5")
	wantText(t, fmt.Sprint(told, l.Skipped()), "[cache: held index superseded] map[cache::1 index:1]")
	check(t, !strings.Contains(log.String(), lease.Owner()) && !strings.Contains(log.String(), "ann"), "log = %s tells the key, or who holds it", log)
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

// TestOutageOnTheLastAttemptIsWaitedOut: it archives nothing, whatever the policy. Work whose record was lost is done
// again, and work whose record was kept is not.
func TestOutageOnTheLastAttemptIsWaitedOut(t *testing.T) {
	ctx := metadata(t, asynq.MaxRetry(0))
	type row struct {
		rule   lockasynq.Rule
		inside func(*locktest.Store) // while it runs for the first time
		runs   int
	}
	rows := map[string]row{
		"no record": {lockasynq.Once("t", "k"), (*locktest.Store).Refuse, 2},
		"no answer": {lockasynq.Once("t", "k"), (*locktest.Store).LoseAnswers, 1},
	}
	for _, policy := range []lockasynq.Conflict{lockasynq.Reschedule, lockasynq.Wait, lockasynq.Skip, lockasynq.Fail} {
		rows[policy.String()] = row{lockasynq.Serialize("t", "k").OnConflict(policy), (*locktest.Store).Heal, 1}
	}
	for name, tt := range rows {
		synctest.Test(t, func(t *testing.T) {
			kit := locktest.New(t)
			outage := func(begin func(*locktest.Store)) {
				begin(kit.Store)
				time.AfterFunc(time.Minute, kit.Store.Heal)
			}
			outage((*locktest.Store).Refuse)
			runs := 0
			err := process(ctx, locks(t, kit.Engine, tt.rule).Middleware(handler(func(context.Context, *asynq.Task) error {
				if runs++; runs == 1 {
					outage(tt.inside)
				}
				return nil
			})), "t", "")
			check(t, err == nil && runs == tt.runs, "%s: error = %v after %d runs, want none and %d", name, err, runs, tt.runs)
		})
	}
}

// TestLastAttemptWaits: asynq archives a task whose retries are used up whatever Config.IsFailure says. So a conflict has
// to be waited out in the handler, also of a rule that does not wait, until the task's own time ends it. What becomes
// of the task then is asynq's decision.
func TestLastAttemptWaits(t *testing.T) {
	ctx := metadata(t, asynq.MaxRetry(0))
	for name, tt := range map[string]struct {
		prepare func(*testing.T, *locktest.Kit)
		want    error
		after   time.Duration
	}{
		"held for an hour": {func(t *testing.T, kit *locktest.Kit) { holds(t, kit.Engine, time.Hour) }, nil, time.Hour},
		"held":             {func(t *testing.T, kit *locktest.Kit) { hold(t, kit.Engine, "k") }, context.DeadlineExceeded, 2 * time.Hour},
		"outage":           {func(_ *testing.T, kit *locktest.Kit) { kit.Store.Refuse() }, context.DeadlineExceeded, 2 * time.Hour},
		"closed":           {func(_ *testing.T, kit *locktest.Kit) { _ = kit.Engine.Close(context.Background()) }, context.DeadlineExceeded, 2 * time.Hour},
	} {
		synctest.Test(t, func(t *testing.T) {
			kit := locktest.New(t, core.WithMaxHold(core.Forever))
			tt.prepare(t, kit)
			ctx, cancel := context.WithTimeout(ctx, 2*time.Hour)
			defer cancel()
			began, ran := time.Now(), false
			err := process(ctx, locks(t, kit.Engine, lockasynq.Serialize("t", "k", core.WithFailFast())).
				Middleware(handler(func(context.Context, *asynq.Task) error { ran = true; return nil })), "t", "")
			if !errors.Is(err, tt.want) || ran != (tt.want == nil) || time.Since(began) != tt.after {
				t.Errorf("%s: %v after %v, it ran: %t; want %v after %v", name, err, time.Since(began), ran, tt.want, tt.after)
			}
		})
	}
}
