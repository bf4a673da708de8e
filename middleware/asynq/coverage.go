package lockasynq

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/keyturn/keyturn/core/coverage"
)

// Coverage lists the given task types, in order, each with the rule that covers
// it or without one: to write to the log at start with coverage.Log, and in
// a test that fails with coverage.Uncovered when somebody adds a type and forgets
// its rule. The types have to be given because [asynq.ServeMux] does not tell
// which it has handlers for; a program does well to keep them in one list, and
// to fill the mux from that.
//
// Without types it lists the rules themselves, each under its pattern, sorted.
// In such a list nothing is ever without a rule.
func (l *Locks) Coverage(types ...string) []coverage.Target {
	if len(types) == 0 {
		types = l.patterns()
	}
	all := make([]coverage.Target, len(types))
	for i, typename := range types {
		all[i].Name = typename
		if r := l.find(typename); r != nil {
			all[i].Rules = []coverage.Rule{r.Info()}
		}
	}
	return all
}

// Check is about the other direction: it returns an error for each rule that
// covers none of the given types, as one with a misspelt pattern does, or whose
// types all have a longer pattern.
func (l *Locks) Check(types ...string) error {
	used := make(map[*checked]bool)
	for _, typename := range types {
		used[l.find(typename)] = true
	}
	var errs []error
	for _, r := range l.rules {
		if !used[r] {
			errs = append(errs, fmt.Errorf("rule for %q: none of the task types matches it", r.Name))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("lockasynq: %w", err)
	}
	return nil
}

func (l *Locks) patterns() []string {
	patterns := make([]string, len(l.rules))
	for i, r := range l.rules {
		patterns[i] = r.Name
	}
	slices.Sort(patterns)
	return patterns
}
