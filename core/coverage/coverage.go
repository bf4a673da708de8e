package coverage

import (
	"context"
	"log/slog"
	"slices"
	"strings"
)

// Target is something that rules may guard.
type Target struct {
	Name  string // "/im.v1.Groups/Join", "PUT /users/:id/status", "im:message"
	Rules []Rule // outermost first; none: it runs without a lock
}

// String returns the target's name with its rules, or with "none".
func (t Target) String() string {
	if len(t.Rules) == 0 {
		return t.Name + ": none"
	}
	rules := make([]string, len(t.Rules))
	for i, r := range t.Rules {
		rules[i] = r.String()
	}
	return t.Name + ": " + strings.Join(rules, ", ")
}

// Uncovered returns the names of the targets without a rule, except those that may do
// without, and of the targets with a rule that can't work there. A test that wants none
// fails when somebody adds a method and forgets its rule:
//
//	if left := coverage.Uncovered(locks.Coverage(server), "/grpc.health.v1.Health/Check"); len(left) > 0 {
//		t.Errorf("without a rule: %v", left)
//	}
func Uncovered(all []Target, except ...string) []string {
	var left []string
	for _, t := range all {
		broken := slices.ContainsFunc(t.Rules, func(r Rule) bool { return r.Problem != "" })
		if broken || len(t.Rules) == 0 && !slices.Contains(except, t.Name) {
			left = append(left, t.Name)
		}
	}
	return left
}

// Log writes one line per target and rule, for use at start: at level info for a rule that
// guards its target, at level error for a rule that can't work there, and at level warn for
// a target without a rule, unless its name is one of except. A nil log is slog.Default().
func Log(ctx context.Context, log *slog.Logger, all []Target, except ...string) {
	if log == nil {
		log = slog.Default()
	}
	for _, t := range all {
		if len(t.Rules) == 0 && !slices.Contains(except, t.Name) {
			log.WarnContext(ctx, "keyturn: runs without a lock", "target", t.Name)
		}
		for _, r := range t.Rules {
			if r.Problem != "" {
				log.ErrorContext(ctx, "keyturn: the rule can't work", "target", t.Name, "once", r.Once, "key", r.Key, "problem", r.Problem)
				continue
			}
			args := []any{"target", t.Name, "once", r.Once, "key", r.Key, "mode", r.Mode.String()}
			if r.Permits > 0 {
				args = append(args, "permits", r.Permits)
			}
			if r.Hierarchy {
				args = append(args, "hierarchy", true)
			}
			log.InfoContext(ctx, "keyturn: guarded", args...)
		}
	}
}
