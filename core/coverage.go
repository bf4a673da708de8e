package core

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"github.com/keyturn/keyturn/core/driver"
)

// RuleInfo says what a rule does, for reports.
type RuleInfo struct {
	// Once: processed once; else one at a time.
	Once bool
	// Key is the rule's template, or "func" where a function makes the key.
	Key string
	// Mode is how the key is shared, and Permits how many hold it at a time, with
	// ModePermit.
	Mode    driver.Mode
	Permits int
	// Hierarchy: the levels above the key are claimed too; see [WithHierarchy].
	Hierarchy bool
	// Skips is why its work may be dropped as if it were done; "": it never is.
	Skips SkipReason
	// RunUnlocked: in an outage it runs without its lock; see [WithRunUnlocked].
	RunUnlocked bool
	// Problem says why the rule can't work on its target, so that it refuses each
	// request: "{path.uid}: the route has no such parameter". "": no problem is known.
	Problem string
}

// String returns "once msg:{id}" or "serialize user:{id}", in which an unusual
// mode has its name: "serialize shared group:{id}", "serialize permit of 5
// pool:{id}", "serialize hierarchy group:{id}/member:{user_id}". A problem
// follows in brackets.
func (r RuleInfo) String() string {
	s := "serialize " + r.mode() + r.Key
	if r.Once {
		s = "once " + r.Key
	}
	if r.Problem != "" {
		s += " (" + r.Problem + ")"
	}
	return s
}

// mode is what there is to say of the mode, with a space behind it.
func (r RuleInfo) mode() string {
	var s string
	switch r.Mode {
	case driver.ModeExclusive:
	case driver.ModePermit:
		s = "permit of " + strconv.Itoa(r.Permits) + " "
	default:
		s = r.Mode.String() + " "
	}
	if r.Hierarchy {
		s += "hierarchy "
	}
	return s
}

// Coverage says which rules guard one target: a gRPC method, a route, a task
// type, a function. Each middleware lists all of its targets, those without a
// rule as well, so that one that was forgotten shows at start and not in
// production.
type Coverage struct {
	Target string     // "/im.v1.Groups/Join", "PUT /users/:id/status", "im:message"
	Rules  []RuleInfo // outermost first; none: it runs without a lock
}

// String returns the target with its rules, or "none".
func (c Coverage) String() string {
	if len(c.Rules) == 0 {
		return c.Target + ": none"
	}
	rules := make([]string, len(c.Rules))
	for i, r := range c.Rules {
		rules[i] = r.String()
	}
	return c.Target + ": " + strings.Join(rules, ", ")
}

// Uncovered returns the targets without a rule, except those that may do
// without, and the targets with a rule that can't work there. A test that wants none
// fails when somebody adds a method and forgets its rule:
//
//	if left := core.Uncovered(locks.Coverage(server), "/grpc.health.v1.Health/Check"); len(left) > 0 {
//		t.Errorf("without a rule: %v", left)
//	}
func Uncovered(all []Coverage, except ...string) []string {
	var left []string
	for _, c := range all {
		broken := slices.ContainsFunc(c.Rules, func(r RuleInfo) bool { return r.Problem != "" })
		if broken || len(c.Rules) == 0 && !slices.Contains(except, c.Target) {
			left = append(left, c.Target)
		}
	}
	return left
}

// LogCoverage writes one line per target and rule, at start: at level info for a rule
// that guards it, at level error for a rule that can't work there, and at level warn for
// a target without any, unless it is one of except. A log of nil is slog.Default().
func LogCoverage(ctx context.Context, log *slog.Logger, all []Coverage, except ...string) {
	if log == nil {
		log = slog.Default()
	}
	for _, c := range all {
		if len(c.Rules) == 0 && !slices.Contains(except, c.Target) {
			log.WarnContext(ctx, "keyturn: runs without a lock", "target", c.Target)
		}
		for _, r := range c.Rules {
			if r.Problem != "" {
				log.ErrorContext(ctx, "keyturn: the rule can't work", "target", c.Target, "once", r.Once, "key", r.Key, "problem", r.Problem)
				continue
			}
			args := []any{"target", c.Target, "once", r.Once, "key", r.Key, "mode", r.Mode.String()}
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
