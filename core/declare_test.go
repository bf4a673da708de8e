package core_test

import (
	"context"
	"slices"
	"testing"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/store/memstore"
)

// All observers are told of rules, by the name that their calls have, and of what
// is skipped under them. Decorated functions declare theirs.
func TestObserversAreToldOfRules(t *testing.T) {
	log := &recorder{}
	eng := newEngine(t, memstore.New(), core.WithHooks(numbered{t, "1", log}.hooks()), core.WithHooks(numbered{t, "2", log}.hooks()))
	grouped, err := core.NewPolicy(policy(t, core.WithRule("first")), core.WithRule("group"), core.WithHierarchy())
	if err != nil {
		t.Fatal(err)
	}
	eng.Declare(grouped, grouped.Info(false, "g/{id}"), "g/a")
	eng.Skipped(context.Background(), grouped, coverage.SkipHeld)
	fn := func(context.Context, string) (int, error) { return 0, nil }
	key := func(s string) string { return s }
	for range 2 { // the second name is taken
		_, _ = core.OnceFunc(eng, "deliver", key, fn)
	}
	want := []string{
		"declared1 group, serialize hierarchy g/{id} on memory: [shared g exclusive g/a]",
		"declared2 group, serialize hierarchy g/{id} on memory: [shared g exclusive g/a]",
		"skipped1 group on memory: held", "skipped2 group on memory: held",
		"declared1 deliver, once func on memory: [exclusive a/b]", "declared2 deliver, once func on memory: [exclusive a/b]",
	}
	if !slices.Equal(log.events, want) {
		t.Errorf("seen\n%q, want\n%q", log.events, want)
	}
	quiet := newEngine(t, memstore.New())
	quiet.Declare(grouped, grouped.Info(false, "k"), "k")
	quiet.Skipped(context.Background(), grouped, coverage.SkipHeld)
}
