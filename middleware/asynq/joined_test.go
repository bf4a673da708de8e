package lockasynq_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/core"
	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
)

// TestSeveralRulesAreOneSet: the keys of all rules of a pattern are taken together, each in its mode, and
// a rule may skip a task.
func TestSeveralRulesAreOneSet(t *testing.T) {
	t.Parallel()
	bot := func(_ context.Context, task *asynq.Task) bool { return strings.Contains(string(task.Payload()), "bot") }
	l := locks(t, engine(t, nil),
		lockasynq.Serialize("move", "user:{payload.user}", core.WithMaxWait(time.Second)).SkipIf(bot).OnConflict(lockasynq.Fail),
		lockasynq.Serialize("move", "group:{payload.group}", core.WithShared()))
	var held []string
	h := l.Middleware(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		lease, _ := core.LeaseFrom(ctx)
		held = nil
		for _, c := range lease.Claims() {
			held = append(held, fmt.Sprint(c.Mode, " ", c.Key))
		}
		return nil
	}))
	for user, want := range map[string][]string{"ann": {"shared group:7", "exclusive user:ann"}, "bot": {"shared group:7"}} {
		task := asynq.NewTask("move", []byte(`{"user":"`+user+`","group":7}`))
		if err := h.ProcessTask(t.Context(), task); err != nil || !slices.Equal(held, want) {
			t.Errorf("%s: held %q, want %q; %v", user, held, want, err)
		}
	}
	want := "move: serialize user:{payload.user} unless skipped, serialize shared group:{payload.group}"
	if all := l.Coverage("move"); all[0].String() != want {
		t.Errorf("Coverage() = %v, want %s", all, want)
	}
	if err := l.Check("move"); err != nil {
		t.Error(err)
	}
}

// TestRulesThatMakeNoSet: what nobody could obey is an error of New.
func TestRulesThatMakeNoSet(t *testing.T) {
	t.Parallel()
	first := lockasynq.Serialize("a", "a:{payload.id}")
	for says, rules := range map[string][]lockasynq.Rule{
		"options other than the mode": {first, lockasynq.Serialize("a", "b", core.WithMaxWait(time.Second))},
		"OnConflict":                  {first, lockasynq.Serialize("a", "b").OnConflict(lockasynq.Skip)},
		"RescheduleEvery":             {first, lockasynq.Serialize("a", "b").RescheduleEvery(time.Minute)},
		"KeepLatestBy":                {first.KeepLatestBy("{payload.version}"), lockasynq.Serialize("a", "b")},
		"UniqueUntilStarted":          {first, lockasynq.Serialize("a", "b").UniqueUntilStarted()},
		"Once has its key alone":      {lockasynq.Once("a", "a"), lockasynq.Serialize("a", "b")},
	} {
		rules = append(rules, lockasynq.Serialize("a", "c"))
		if _, err := lockasynq.New(engine(t, nil), rules...); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("New() error = %v, want one with %q", err, says)
		}
	}
}

// TestSkippedTasks: a rule of Once runs a task that it skips each time, and gives it no id; one that
// remembers something of its key cannot skip.
func TestSkippedTasks(t *testing.T) {
	t.Parallel()
	skip := func(context.Context, *asynq.Task) bool { return true }
	l := locks(t, engine(t, nil), lockasynq.Once("mail", "mail:{payload.id}").SkipIf(skip))
	ran, task := 0, asynq.NewTask("mail", []byte(`{"id":1}`))
	h := l.Middleware(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { ran++; return nil }))
	for range 2 {
		if err := h.ProcessTask(t.Context(), task); err != nil {
			t.Error(err)
		}
	}
	if ran != 2 {
		t.Errorf("ran %d times, want 2", ran)
	}
	if id, err := l.TaskID(t.Context(), task); err == nil {
		t.Errorf("TaskID() = %v, want an error", id)
	}
	if _, err := lockasynq.New(engine(t, nil), lockasynq.Serialize("a", "a").KeepLatestBy("{payload.v}").SkipIf(skip)); err == nil || !strings.Contains(err.Error(), "SkipIf") {
		t.Errorf("New() error = %v, want one about SkipIf", err)
	}
}
