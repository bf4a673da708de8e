package core_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/author"
	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/store/memstore"
)

// Hooks are told of rules, by the name that their calls have, and of what is skipped under
// them; not of rules whose calls can't succeed.
func TestHooksAreToldOfRules(t *testing.T) {
	log := &recorder{}
	eng := newEngine(t, memstore.New(), core.WithHooks(log.hooks(t, "1")), core.WithHooks(log.hooks(t, "2")))
	grouped, err := core.NewPolicy(policy(t, core.WithRule("first")), core.WithRule("group"), core.WithHierarchy())
	must(t, err)
	declare := func(eng *core.Engine, p core.Policy, r coverage.Rule, like string) {
		t.Helper()
		if _, err := author.Declare(eng, author.Rule{Policy: p, About: r, Like: []string{like}}); err != nil {
			t.Error(err)
		}
		author.Skipped(bg, eng, p, coverage.SkipHeld)
	}
	declare(eng, grouped, coverage.Rule{Key: "g/{id}"}, "g/a")
	declare(newEngine(t, memstore.New()), grouped, coverage.Rule{Key: "k"}, "k") // it has no hooks
	_, err = author.Declare(eng, author.Rule{Policy: grouped, About: coverage.Rule{Once: true}, Like: []string{"g/a"}})
	wantOnly(t, err, core.ErrInvalidOption)
	_, err = author.Declare(eng, author.Rule{Policy: grouped, About: coverage.Rule{}, Like: []string{"g//a"}})
	wantOnly(t, err, core.ErrInvalidClaim)
	want := []string{
		"1Declared group, serialize hierarchy g/{id} on memory: [{g shared 0 } {g/a exclusive 0 }]",
		"2Declared group, serialize hierarchy g/{id} on memory: [{g shared 0 } {g/a exclusive 0 }]",
		"1Skipped group on memory: held", "2Skipped group on memory: held",
	}
	if !slices.Equal(log.events, want) {
		t.Errorf("seen\n%q, want\n%q", log.events, want)
	}
}

// What a rule does follows from its policy and from the engine's defaults.
func TestDeclaredRulesHaveTheEnginesDefaults(t *testing.T) {
	eng := newEngine(t, memstore.New(), core.WithResultLimit(7), core.WithRunUnlocked())
	for name, tc := range map[string]struct {
		opts []core.CallOption
		rule coverage.Rule
		want coverage.Rule
	}{
		"the engine's": {rule: coverage.Rule{Once: true}, want: coverage.Rule{Once: true, ResultLimit: 7, RunUnlocked: true}},
		"its own": {
			opts: []core.CallOption{core.WithResultLimit(0)},
			rule: coverage.Rule{Once: true, Key: "k"}, want: coverage.Rule{Once: true, Key: "k", RunUnlocked: true},
		},
		"no result": {rule: coverage.Rule{Skips: coverage.SkipHeld}, want: coverage.Rule{Skips: coverage.SkipHeld, RunUnlocked: true}},
	} {
		if got, err := author.Declare(eng, author.Rule{Policy: policy(t, tc.opts...), About: tc.rule, Like: []string{"k"}}); err != nil || got != tc.want {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, tc.want)
		}
	}
}

func TestDeclareNeedsAStoreThatCan(t *testing.T) {
	eng := newEngine(t, plain{memstore.New()})
	for _, r := range []coverage.Rule{{Once: true}, {Skips: coverage.SkipSuperseded}} {
		_, err := author.Declare(eng, author.Rule{Policy: core.Policy{}, About: r, Like: []string{"k"}})
		wantOnly(t, err, errors.ErrUnsupported)
	}
	_, err := author.Declare(eng, author.Rule{Policy: core.Policy{}, About: coverage.Rule{}, Like: []string{"k"}})
	wantOnly(t, err)
}
