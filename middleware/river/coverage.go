package lockriver

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/keyturn/keyturn/core/coverage"
)

// Coverage lists the given kinds of jobs, in order, each with the rule that covers it or without one.
// Log the list at start with coverage.Log. In a test, coverage.Uncovered fails if somebody adds a kind
// and forgets its rule. You have to give the kinds, because river.Workers does not tell which it has
// workers for. A program should keep them in one list, and fill the workers from it.
//
// Without kinds it lists the rules themselves, sorted. Such a list has no target without a rule.
func (l *Locks) Coverage(kinds ...string) []coverage.Target {
	if len(kinds) == 0 {
		kinds = l.kinds()
	}
	all := make([]coverage.Target, len(kinds))
	for i, kind := range kinds {
		all[i].Name = kind
		if r := l.rules[kind]; r != nil {
			all[i].Rules = r.Infos()
		}
	}
	return all
}

// Check returns an error for each rule whose kind is none of the given: it may be misspelt.
func (l *Locks) Check(kinds ...string) error {
	var errs []error
	for _, kind := range l.kinds() {
		if !slices.Contains(kinds, kind) {
			errs = append(errs, fmt.Errorf("rule for %q: none of the kinds matches it", kind))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("lockriver: %w", err)
	}
	return nil
}

func (l *Locks) kinds() []string { return slices.Sorted(maps.Keys(l.rules)) }
