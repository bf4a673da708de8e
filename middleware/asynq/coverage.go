package lockasynq

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/keyturn/keyturn/core/coverage"
)

// Coverage lists the given task types, in order, each with the rule that covers it or without
// one. Log the list at start with coverage.Log. In a test, coverage.Uncovered fails if somebody
// adds a type and forgets its rule. You have to give the types, because [asynq.ServeMux] does
// not tell which it has handlers for. A program should keep them in one list, and fill the mux
// from it.
//
// Without types it lists the rules themselves, each under its pattern, sorted. Such a list has
// no target without a rule.
func (l *Locks) Coverage(types ...string) []coverage.Target {
	if len(types) == 0 {
		for _, r := range l.rules {
			types = append(types, r.Name)
		}
		slices.Sort(types)
	}
	all := make([]coverage.Target, len(types))
	for i, typename := range types {
		all[i].Name = typename
		if r := l.find(typename); r != nil {
			all[i].Rules = r.Infos()
		}
	}
	return all
}

// Check returns an error for each rule that covers none of the given types: its pattern may be
// misspelt, or all its types have a longer pattern.
func (l *Locks) Check(types ...string) error {
	used := make(map[*checked]bool)
	for _, typename := range types {
		used[l.find(typename)] = true
	}
	var errs []error
	for _, r := range l.rules {
		if !used[r] {
			errs = append(errs, fmt.Errorf("rule for %q: none of the task types matches it: %q", r.Name, types))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("lockasynq: %w", err)
	}
	return nil
}
