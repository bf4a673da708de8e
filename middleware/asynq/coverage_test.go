package lockasynq_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/coverage"
	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
	"github.com/keyturn/keyturn/store/memstore"
)

func TestCoverage(t *testing.T) {
	t.Parallel()
	l := locks(t, engine(t, nil),
		lockasynq.Serialize("im:status", "user:{payload.user_id}"),
		lockasynq.Once("im:", "msg:{id}"),
		lockasynq.OnceBy("mail:welcome", func(string) string { return "k" }),
	)
	once := []coverage.Rule{{Once: true, Key: "msg:{id}", ResultLimit: 64 << 10}}
	byFunc := []coverage.Rule{{Once: true, Key: "func", ResultLimit: 64 << 10}}
	serialize := []coverage.Rule{{Key: "user:{payload.user_id}"}}
	for _, tt := range []struct {
		name  string
		types []string
		want  []coverage.Target
	}{
		{
			"types, in their order",
			[]string{"mail:welcome", "mail:other", "im:status:set", "im:message"},
			[]coverage.Target{
				{Name: "mail:welcome", Rules: byFunc},
				{Name: "mail:other"},
				{Name: "im:status:set", Rules: serialize},
				{Name: "im:message", Rules: once},
			},
		},
		{
			"the rules, sorted", nil,
			[]coverage.Target{
				{Name: "im:", Rules: once},
				{Name: "im:status", Rules: serialize},
				{Name: "mail:welcome", Rules: byFunc},
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := l.Coverage(tt.types...); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("Coverage() = %v, want %v", got, tt.want)
			}
		})
	}
}

// The report must say what happens on a server.
func TestCoverageTellsWhatHappens(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	l := locks(t, engine(t, nil), lockasynq.Serialize("im:", "a"), lockasynq.Serialize("im:status", "b"))
	types := []string{"im:status", "im:message", "mail:welcome"}
	keys := make(chan string, 1)
	mux := asynq.NewServeMux()
	mux.Use(l.Middleware)
	for _, typename := range types {
		mux.HandleFunc(typename, func(ctx context.Context, _ *asynq.Task) error {
			if lease, ok := core.LeaseFrom(ctx); ok {
				keys <- lease.Key()
			} else {
				keys <- "none"
			}
			return nil
		})
	}
	q.serve(mux)
	for _, c := range l.Coverage(types...) {
		q.enqueue(c.Name, "")
		ran := receive(t, "the handler to run", keys)
		if ran != "none" {
			ran = "serialize " + ran
		}
		if want := c.Name + ": " + ran; c.String() != want {
			t.Errorf("the report says %q, and it ran under %q", c, want)
		}
	}
}

func TestCoverageInTheLog(t *testing.T) {
	t.Parallel()
	l := locks(t, engine(t, nil), lockasynq.Serialize("im:status", "k"))
	var log bytes.Buffer
	all := l.Coverage("im:status", "im:message")
	coverage.Log(context.Background(), slog.New(slog.NewTextHandler(&log, nil)), all)
	for _, want := range []string{"level=INFO", "target=im:status", "level=WARN", "target=im:message"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("log = %s, want %s", &log, want)
		}
	}
	if left := coverage.Uncovered(all); !reflect.DeepEqual(left, []string{"im:message"}) {
		t.Errorf("uncovered: %v, want im:message", left)
	}
}

func TestCheckFindsRulesForNothing(t *testing.T) {
	t.Parallel()
	l := locks(t, engine(t, nil),
		lockasynq.Serialize("im:", "k"),
		lockasynq.Serialize("im:status", "k"),
		lockasynq.Serialize("im:mesage", "k"),
	)
	if err := l.Check("im:status", "im:mesage:new", "im:other", "mail:welcome"); err != nil {
		t.Errorf("Check() = %v, want nil: all rules cover something", err)
	}
	err := l.Check("im:status:set", "im:message")
	if err == nil || !strings.Contains(err.Error(), `rule for "im:mesage"`) || strings.Count(err.Error(), "rule for") != 1 {
		t.Errorf("Check() = %v, want one error, about im:mesage", err)
	}
	err = l.Check("im:status")
	if err == nil || !strings.Contains(err.Error(), `rule for "im:"`) {
		t.Errorf("Check() = %v, want an error about im:, whose only type has a longer pattern", err)
	}
}

// At start, into the log: which tasks have which rule. In a test:
//
//	if left := coverage.Uncovered(locks.Coverage(taskTypes...), "mail:welcome"); len(left) > 0 {
//		t.Errorf("without a rule: %v", left)
//	}
func ExampleLocks_Coverage() {
	eng, _ := core.New(memstore.New())
	defer eng.Close(context.Background())
	locks, _ := lockasynq.New(eng,
		lockasynq.Serialize("im:status", "user:status:{payload.user_id}"),
		lockasynq.Once("im:message", "msg:{payload.id}"),
	)
	taskTypes := []string{"im:message", "im:status:set", "mail:welcome"}
	for _, c := range locks.Coverage(taskTypes...) { // coverage.Log(ctx, logger, ...) in a real one
		fmt.Println(c)
	}
	fmt.Println("without a rule:", coverage.Uncovered(locks.Coverage(taskTypes...)))
	// Output:
	// im:message: once msg:{payload.id}
	// im:status:set: serialize user:status:{payload.user_id}
	// mail:welcome: none
	// without a rule: [mail:welcome]
}
