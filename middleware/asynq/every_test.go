package lockasynq_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/locktest"
	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
	"github.com/keyturn/keyturn/store/memstore"
)

// The rule's delay is the same each time, on a server, until the key is free.
func TestRescheduleEvery(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	eng := engine(t, nil)
	lease := hold(t, eng, "k")
	l := locks(t, eng, lockasynq.Serialize("t", "k", core.WithFailFast()).RescheduleEvery(7*time.Second))
	delays := make(chan time.Duration, 10)
	ours := lockasynq.RetryDelay(nil)
	q.serve(l.Middleware(handler(succeed)), func(cfg *asynq.Config) {
		cfg.RetryDelayFunc = func(n int, err error, task *asynq.Task) time.Duration {
			delays <- ours(n, err, task)
			return 0 // the test is in a hurry
		}
	})
	id := q.enqueue("t", "", asynq.MaxRetry(1))
	for range 5 {
		if d := receive(t, "a delay", delays); d != 7*time.Second {
			t.Errorf("delay %v, want the rule's", d)
		}
	}
	if err := lease.Release(context.Background()); err != nil {
		t.Fatal(err)
	}
	if info := q.become(id, asynq.TaskStateCompleted); info.Retried != 0 {
		t.Errorf("%d retries were used up, want 0", info.Retried)
	}
}

// An outage is no held key: there the delay grows, as without the option.
func TestRescheduleEveryIsNotForOutages(t *testing.T) {
	t.Parallel()
	store := locktest.NewStore(memstore.New())
	l := locks(t, engine(t, store), lockasynq.Serialize("t", "k").RescheduleEvery(time.Second))
	store.Refuse()
	err := nothingRuns(t, l).ProcessTask(context.Background(), asynq.NewTask("t", nil))
	var again *lockasynq.RescheduleError
	if !errors.As(err, &again) || again.Fixed || again.RetryAfter <= time.Second {
		t.Errorf("error = %#v, want a delay of its own", again)
	}
	delay := lockasynq.RetryDelay(nil)
	again.Times = 10
	if d := delay(0, err, nil); d < time.Minute {
		t.Errorf("delay %v in a long outage", d)
	}
}

func TestRescheduleEveryIsChecked(t *testing.T) {
	t.Parallel()
	eng := engine(t, nil)
	rule := lockasynq.Serialize("t", "k")
	for _, d := range []time.Duration{-time.Second, 0, time.Millisecond, time.Second - 1, 1500 * time.Millisecond, 24*time.Hour + time.Second} {
		if _, err := lockasynq.New(eng, rule.RescheduleEvery(d)); !errors.Is(err, core.ErrInvalidOption) || !strings.Contains(err.Error(), `rule for "t"`) {
			t.Errorf("%v: %v", d, err)
		}
	}
	for _, c := range []lockasynq.Conflict{lockasynq.Wait, lockasynq.Skip, lockasynq.Fail} {
		if _, err := lockasynq.New(eng, rule.OnConflict(c).RescheduleEvery(time.Second)); !errors.Is(err, core.ErrInvalidOption) {
			t.Errorf("%v: %v", c, err)
		}
	}
	for _, r := range []lockasynq.Rule{rule.RescheduleEvery(time.Second), rule.RescheduleEvery(24 * time.Hour), lockasynq.Once("t", "k").RescheduleEvery(time.Minute)} {
		if _, err := lockasynq.New(eng, r); err != nil {
			t.Error(err)
		}
	}
}
