// Package authoring is what core and core/author know together. core sets the function variables,
// which keeps them out of its API. The engine and the policy are core's own types, which this package
// cannot name.
package authoring

import (
	"context"
	"log/slog"

	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/core/driver"
)

// Rule is a rule as its author declares it.
type Rule struct {
	Policy          any // a core.Policy
	About           coverage.Rule
	Like            []string // keys such as the rule's calls will ask for
	AdvancesVersion bool     // its calls raise versions
}

// core sets these functions when the program starts. engine is a *core.Engine.
var (
	Declare  func(engine any, rule Rule) (coverage.Rule, error)
	Skipped  func(ctx context.Context, engine, policy any, why coverage.SkipReason)
	Modeless func(policy any) (without any, only bool)
	Describe func(engine any) driver.Description
	Logger   func(engine any) *slog.Logger
)
