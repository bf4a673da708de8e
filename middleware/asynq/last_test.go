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
	ctx := metadata(t, asynq.MaxRetry(0))
	synctest.Test(t, func(t *testing.T) {
		eng := engine(t, nil, core.WithMaxHold(core.Forever))
		lease := hold(t, eng, "k")
		time.AfterFunc(time.Hour, func() { _ = lease.Release(context.Background()) })
		began := time.Now()
		err := process(ctx, locks(t, eng, lockasynq.Serialize("t", "k", core.WithFailFast())).Middleware(handler(succeed)), "t", "")
		if took := time.Since(began); err != nil || took != time.Hour {
			t.Errorf("error = %v after %v, want success when the key is free", err, took)
		}
	})
}
