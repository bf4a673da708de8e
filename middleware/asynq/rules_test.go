package lockasynq_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
	"github.com/keyturn/keyturn/store/memstore"
)

// leasesOnly is a store that keeps no records.
type leasesOnly struct{ driver.Store }

func (leasesOnly) Describe() driver.Description { return driver.Description{} }

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	type payload struct{ ID string }
	full, plain := engine(t, nil), engine(t, leasesOnly{memstore.New()})
	tests := []struct {
		name  string
		eng   *core.Engine
		rules []lockasynq.Rule
		is    error
		says  string
	}{
		{name: "no engine", rules: []lockasynq.Rule{lockasynq.Serialize("a", "k")}, is: core.ErrInvalidOption, says: "an engine"},
		{name: "no engine and no rules", is: core.ErrInvalidOption, says: "an engine"},
		{name: "the zero rule", eng: full, rules: []lockasynq.Rule{{}}, says: "want a task type"},
		{name: "a blank pattern", eng: full, rules: []lockasynq.Rule{lockasynq.Serialize(" ", "k")}, says: "want a task type"},
		{name: "one pattern twice", eng: full, rules: []lockasynq.Rule{lockasynq.Serialize("a", "k"), lockasynq.Once("a", "k")}, says: `rule for "a": a rule of Once has its key alone`},
		{name: "no template", eng: full, rules: []lockasynq.Rule{lockasynq.Serialize("a", "")}, says: "keytmpl"},
		{name: "a template that does not parse", eng: full, rules: []lockasynq.Rule{lockasynq.Serialize("a", "{payload")}, says: "at byte 8"},
		{name: "no key function", eng: full, rules: []lockasynq.Rule{lockasynq.SerializeBy[payload]("a", nil)}, says: "key function is nil"},
		{name: "no key function for Once", eng: full, rules: []lockasynq.Rule{lockasynq.OnceBy[payload]("a", nil)}, says: "key function is nil"},
		{name: "an option out of range", eng: full, rules: []lockasynq.Rule{lockasynq.Serialize("a", "k", core.WithTTL(-1))}, is: core.ErrInvalidOption, says: "WithTTL"},
		{name: "a nil option", eng: full, rules: []lockasynq.Rule{lockasynq.Serialize("a", "k", nil)}, is: core.ErrInvalidOption},
		{name: "Once without records", eng: plain, rules: []lockasynq.Rule{lockasynq.Once("a", "k")}, is: errors.ErrUnsupported},
		{name: "several keys at a store that takes one", eng: plain, rules: []lockasynq.Rule{lockasynq.Serialize("a", "{payload.m[*]}")}, is: errors.ErrUnsupported},
		{name: "several keys for Once", eng: full, rules: []lockasynq.Rule{lockasynq.Once("a", "{payload.m[*]}")}, says: "Once needs exactly one"},

		{name: "an unknown source", eng: full, rules: []lockasynq.Rule{lockasynq.Serialize("a", "{body.id}")}, says: "no such source"},
		{name: "a field without a source", eng: full, rules: []lockasynq.Rule{lockasynq.Serialize("a", "{user_id}")}, says: "no such source"},
		{name: "a header without a name", eng: full, rules: []lockasynq.Rule{lockasynq.Serialize("a", "{header}")}, says: "no such source"},
		{name: "a part of the id", eng: full, rules: []lockasynq.Rule{lockasynq.Serialize("a", "{id.x}")}, says: "no such source"},
		{name: "a part of the type", eng: full, rules: []lockasynq.Rule{lockasynq.Serialize("a", "{type.x}")}, says: "no such source"},
		{name: "a part of the queue", eng: full, rules: []lockasynq.Rule{lockasynq.Serialize("a", "{queue.x}")}, says: "no such source"},
		{name: "elements of a header", eng: full, rules: []lockasynq.Rule{lockasynq.Serialize("a", "{header.x[*]}")}, says: "has a single value"},
		{name: "elements of the type", eng: full, rules: []lockasynq.Rule{lockasynq.Serialize("a", "{type[*]}")}, says: "has a single value"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, err := lockasynq.New(tt.eng, tt.rules...)
			if err == nil || l != nil {
				t.Fatalf("New() = %v, %v, want an error and nothing else", l, err)
			}
			if tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("New() error = %v, want one that matches %v", err, tt.is)
			}
			if !strings.Contains(err.Error(), tt.says) {
				t.Errorf("New() error = %v, want one with %q", err, tt.says)
			}
		})
	}
}

func TestNewTellsAllThatIsWrong(t *testing.T) {
	t.Parallel()
	_, err := lockasynq.New(engine(t, nil),
		lockasynq.Serialize("first", "{nope}", core.WithMaxWait(-1)),
		lockasynq.SerializeBy[int]("second", nil),
		lockasynq.Serialize("third", "fine"),
		lockasynq.Serialize("third", "{payload"),
	)
	for _, want := range []string{"{nope}", "WithMaxWait", `"second"`, "keytmpl"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New() error = %v, want one with %q", err, want)
		}
	}
}

func TestMiddlewareRefusesNoHandler(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("Middleware(nil) did not panic")
		}
	}()
	locks(t, engine(t, nil)).Middleware(nil)
}

// A task goes under the rule with the pattern under which the mux would find
// its handler.
func TestPatternsAreTheMuxes(t *testing.T) {
	t.Parallel()
	eng := engine(t, nil)
	patterns := []string{"im", "im:status", "im:status:set", "mail:"}
	for typename, want := range map[string]string{
		"im:status":         "im:status", // exactly
		"im:status:set":     "im:status:set",
		"im:status:get":     "im:status",
		"im:statusreport":   "im:status", // a prefix is no more than that
		"im:message":        "im",
		"im":                "im",
		"mail:welcome":      "mail:",
		"mail":              "",
		"i":                 "",
		"other":             "",
		"":                  "",
		"IM:status":         "",
		" im:status":        "",
		"im:status:set:now": "im:status:set",
	} {
		if got := patternChosen(t, eng, patterns, typename); got != want {
			t.Errorf("type %q is under the rule for %q, want %q", typename, got, want)
		}
	}
}

// FuzzPatterns takes asynq's own mux for the measure.
func FuzzPatterns(f *testing.F) {
	f.Add("a", "a:b", "ab", "a:bc")
	f.Add("x", "xyz", "xy", "xyzz")
	eng := engine(f, nil)
	f.Fuzz(func(t *testing.T, a, b, c, typename string) {
		var patterns []string
		mux := asynq.NewServeMux()
		for _, p := range []string{a, b, c} {
			if strings.TrimSpace(p) != "" && !strings.Contains(strings.Join(patterns, "\x00")+"\x00", p+"\x00") {
				patterns = append(patterns, p)
				mux.Handle(p, handler(succeed))
			}
		}
		_, want := mux.Handler(asynq.NewTask(typename, nil))
		if got := patternChosen(t, eng, patterns, typename); got != want {
			t.Errorf("of %q type %q is under the rule for %q, want %q", patterns, typename, got, want)
		}
	})
}

// patternChosen runs a task through rules for patterns and returns the one it
// came under, "" for none.
func patternChosen(t *testing.T, eng *core.Engine, patterns []string, typename string) string {
	t.Helper()
	var rules []lockasynq.Rule
	of := make(map[string]string) // by key
	for i, p := range patterns {
		key := fmt.Sprint("k", i)
		of[key] = p
		rules = append(rules, lockasynq.Serialize(p, key))
	}
	var chosen string
	err := locks(t, eng, rules...).Middleware(handler(func(ctx context.Context, _ *asynq.Task) error {
		if lease, ok := core.LeaseFrom(ctx); ok {
			chosen = of[lease.Key()]
		}
		return nil
	})).ProcessTask(context.Background(), asynq.NewTask(typename, nil))
	if err != nil {
		t.Fatal(err)
	}
	return chosen
}

// A task without a rule is none of our business.
func TestTasksWithoutARulePassThrough(t *testing.T) {
	t.Parallel()
	eng := engine(t, nil)
	hold(t, eng, "k")
	l := locks(t, eng, lockasynq.Serialize("im:status", "k"))
	failure := errors.New("the handler's")
	type mark struct{}
	given := context.WithValue(context.Background(), mark{}, 1)
	err := l.Middleware(handler(func(ctx context.Context, _ *asynq.Task) error {
		if ctx != given {
			t.Error("the handler got another context")
		}
		return failure
	})).ProcessTask(given, asynq.NewTask("other", nil))
	if err != failure {
		t.Errorf("error = %v, want the handler's own", err)
	}
}

var _ asynq.MiddlewareFunc = (*lockasynq.Locks)(nil).Middleware
