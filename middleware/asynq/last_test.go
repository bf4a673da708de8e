package lockasynq_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/locktest"
	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
)

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
			if err != nil || runs != tt.runs {
				t.Errorf("%s: error = %v after %d runs, want none and %d", name, err, runs, tt.runs)
			}
		})
	}
}

// TestLastAttemptEndsWithTheTask: without an end of the conflict or the outage, the task's own time ends it, and
// what becomes of the task is asynq's decision.
func TestLastAttemptEndsWithTheTask(t *testing.T) {
	ctx := metadata(t, asynq.MaxRetry(0))
	for name, prepare := range map[string]func(*testing.T, *locktest.Kit){
		"held":   func(t *testing.T, kit *locktest.Kit) { hold(t, kit.Engine, "k") },
		"outage": func(_ *testing.T, kit *locktest.Kit) { kit.Store.Refuse() },
		"closed": func(_ *testing.T, kit *locktest.Kit) { _ = kit.Engine.Close(context.Background()) },
	} {
		synctest.Test(t, func(t *testing.T) {
			kit := locktest.New(t, core.WithMaxHold(core.Forever))
			prepare(t, kit)
			ctx, cancel := context.WithTimeout(ctx, time.Hour)
			defer cancel()
			began := time.Now()
			err := process(ctx, nothingRuns(t, locks(t, kit.Engine, lockasynq.Serialize("t", "k", core.WithFailFast()))), "t", "")
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Hour {
				t.Errorf("%s: error = %v after %v, want the deadline after an hour", name, err, time.Since(began))
			}
		})
	}
}

// TestConflictOnTheLastAttemptWaits: asynq archives a task whose retries are used up whatever Config.IsFailure
// says. So a conflict has to be waited out in the handler, also of a rule that does not wait.
func TestConflictOnTheLastAttemptWaits(t *testing.T) {
	t.Parallel()
	q, seen := newQueue(t), newWatcher()
	eng := engine(t, nil, core.WithHooks(seen.hooks()))
	l := locks(t, eng, lockasynq.Serialize("im:status", "k", core.WithFailFast()))
	var lease *core.Lease
	failed := false
	q.serve(l.Middleware(handler(func(context.Context, *asynq.Task) error {
		if failed {
			return nil
		}
		failed = true
		return errors.New("a real failure")
	})), func(cfg *asynq.Config) {
		cfg.RetryDelayFunc = lockasynq.RetryDelay(func(int, error, *asynq.Task) time.Duration {
			lease = hold(t, eng, "k") // before the last attempt begins
			return 0
		})
	})
	id := q.enqueue("im:status", "", asynq.MaxRetry(1))
	for range 2 {
		receive(t, "the task to ask for its key", seen.asks)
	}
	<-seen.ends // of the first
	select {    // refused at once, as the rule says, it would be archived by now
	case err := <-seen.ends:
		t.Fatalf("the last attempt's wait ended with %v while the key was held", err)
	case <-time.After(100 * time.Millisecond):
	}
	if err := lease.Release(context.Background()); err != nil {
		t.Fatal(err)
	}
	if info := q.become(id, asynq.TaskStateCompleted); info.Retried != 1 {
		t.Errorf("%d retries were used up, want 1", info.Retried)
	}
}
