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
