// Package author is for authors of middlewares. A middleware declares each of its rules when it is
// made, so that a wrong one stops the program, and tells the engine's hooks what it leaves out.
package author

import (
	"context"
	"log/slog"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/authoring"
)

// Rule is what the author of a rule knows of it. The zero Rule is one that locks, under the engine's
// defaults.
type Rule struct {
	Policy core.Policy
	// About has Once, Key and Skips. The engine fills in the rest.
	About coverage.Rule
	// Like has keys such as the rule's calls will ask for.
	Like []string
	// AdvancesVersion: the rule's calls raise versions ([core.Engine.AdvanceVersion]).
	AdvancesVersion bool
}

// Declare checks a rule and makes it known before its first call. A program that names rules of its
// own with core.WithRule may call it, too.
//
// It returns About with what the policy and the engine's defaults say: Mode, Permits, Hierarchy,
// RunUnlocked, Shadow, MinHold and ResultLimit. It tells the hook observe.Hooks.Declared, so that
// counters begin at zero. It may be repeated. While the engine has no store ([core.NewLate]), it checks
// what needs none; core.Engine.Bind checks the rest and tells the hooks.
//
// Declare does no I/O. An error says that the rule's calls can't succeed. It matches
// errors.ErrUnsupported if the store can't do what they need; core.ErrInvalidOption if an option is
// out of range, or not for core.Engine.Once; core.ErrInvalidKey or core.ErrInvalidClaim if keys like
// these can't be claimed. The hooks are not told of such a rule.
func Declare(eng *core.Engine, r Rule) (coverage.Rule, error) {
	return authoring.Declare(eng, authoring.Rule{Policy: r.Policy, About: r.About, Like: r.Like, AdvancesVersion: r.AdvancesVersion})
}

// Skipped tells the hook observe.Hooks.Skipped that the rule with this policy dropped work as if it
// were done. The rule decides when.
func Skipped(ctx context.Context, eng *core.Engine, p core.Policy, why coverage.SkipReason) {
	authoring.Skipped(ctx, eng, p, why)
}

// Modeless returns a policy without core.WithShared, core.WithPermits and core.WithHierarchy, for calls
// that name the mode of each claim, and whether the policy has nothing else.
func Modeless(p core.Policy) (without core.Policy, only bool) {
	other, only := authoring.Modeless(p)
	return other.(core.Policy), only
}

// Describe returns what the engine's store says of itself: its name and what it can do. While the
// engine has no store, it is one that can do everything. Acquisitions check it before any I/O, so a
// program needs it only to decide at start.
func Describe(eng *core.Engine) driver.Description { return authoring.Describe(eng) }

// Logger returns the logger of core.WithLogger.
func Logger(eng *core.Engine) *slog.Logger { return authoring.Logger(eng) }

// Encode returns a result as [core.Once] records it: as JSON, and bytes as they are. Its error is to be
// told with core.ErrEncoding.
func Encode[T any](result T) ([]byte, error) { return authoring.Encode(result) }

// Decode reads what [Encode] returned.
func Decode[T any](stored []byte, result *T) error { return authoring.Decode(stored, result) }
