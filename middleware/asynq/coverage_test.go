package lockasynq_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/coverage"
	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
	"github.com/keyturn/keyturn/store/memstore"
)

func TestCoverage(t *testing.T) {
	t.Parallel()
	l := locks(t, engine(t),
		lockasynq.Serialize("im:status", "user:{payload.user_id}"),
		lockasynq.Once("im:", "msg:{id}"),
		lockasynq.OnceBy("mail:welcome", func(string) string { return "k" }),
	)
	for want, types := range map[string][]string{
		"[im:: once msg:{id} im:status: serialize user:{payload.user_id} mail:welcome: once func]":   nil, // of the rules, sorted
		"[mail:welcome: once func mail:other: none im:status:set: serialize user:{payload.user_id}]": {"mail:welcome", "mail:other", "im:status:set"},
	} {
		got := fmt.Sprint(l.Coverage(types...))
		check(t, got == want, "Coverage(%q) = %s, want %s", types, got, want)
	}
}

func TestCheckFindsRulesForNothing(t *testing.T) {
	t.Parallel()
	l := locks(t, engine(t),
		lockasynq.Serialize("im:", "k"),
		lockasynq.Serialize("im:status", "k"),
		lockasynq.Serialize("im:mesage", "k"),
	)
	if err := l.Check("im:status", "im:mesage:new", "im:other", "mail:welcome"); err != nil {
		t.Errorf("Check() = %v, want nil: all rules cover something", err)
	}
	err := l.Check("im:status:set", "im:message")
	check(t, err != nil && strings.Contains(err.Error(), `rule for "im:mesage"`) && strings.Count(err.Error(), "rule for") == 1, "Check() = %v, want one error, about im:mesage", err)
	err = l.Check("im:status")
	check(t, err != nil && strings.Contains(err.Error(), `rule for "im:"`), "Check() = %v, want an error about im:, whose only type has a longer pattern", err)
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
