package core

import (
	"context"

	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/core/observe"
)

// Declare tells the hooks that there is a rule, named by its policy's [WithRule],
// before its first call: so that what they count begins at zero. Its calls ask for
// keys like these. Middlewares, [SerializeFunc] and [OnceFunc] do it for theirs; a
// program that names rules itself may. It may be repeated.
func (e *Engine) Declare(p Policy, info coverage.Rule, like ...string) {
	if e.hooks == nil {
		return
	}
	s := p.settings()
	e.hooks.declared(observe.Declaration{Rule: s.rule, Store: e.about.Name, Claims: p.Claims(like...), Info: info})
}

// Skipped tells the hooks that work under the rule with this policy was dropped
// instead of being done: for middlewares, whose rules say when.
func (e *Engine) Skipped(ctx context.Context, p Policy, why coverage.SkipReason) {
	if e.hooks != nil {
		s := p.settings()
		e.hooks.skipped(ctx, observe.Skip{Rule: s.rule, Store: e.about.Name, Reason: why})
	}
}
