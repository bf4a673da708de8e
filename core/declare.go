package core

import (
	"context"
	"errors"

	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
)

// Declare checks a rule and makes it known before its first call. It is for authors of
// middlewares; a program that names rules of its own with [WithRule] may call it, too.
//
// p is the rule's policy. rule is what its author knows of it: Once, Key and Skips. like has
// keys such as the rule's calls will ask for. Declare returns rule with what the policy and
// the engine's defaults say: Mode, Permits, Hierarchy, RunUnlocked, Shadow, MinHold and ResultLimit. It
// tells the hook observe.Hooks.Declared, so that counters begin at zero. It may be repeated.
//
// Declare does no I/O. An error says that the rule's calls can't succeed. It matches
// [errors.ErrUnsupported] if the store can't do what they need; ErrInvalidOption if an option
// is out of range, or not for [Engine.Once]; ErrInvalidKey or ErrInvalidClaim if keys like
// these can't be claimed. The hooks are not told of such a rule.
func (e *Engine) Declare(p Policy, rule coverage.Rule, like ...string) (coverage.Rule, error) {
	s, err := e.settingsFor([]CallOption{p})
	if err != nil {
		return rule, err
	}
	rule.Mode, rule.Permits, rule.Hierarchy, rule.RunUnlocked, rule.Shadow = s.mode, s.permits, s.hierarchy, s.runUnlocked, s.shadow != notShadow
	if s.minHold > 0 {
		rule.MinHold = e.about.TTLs.Nearest(s.minHold)
	}
	claims := make([]Claim, len(like))
	for i, key := range like {
		claims[i] = Exclusive(key)
	}
	claims = s.shape(claims)
	if rule.Once {
		rule.ResultLimit = s.resultLimit
		err = e.canOnce(s)
	} else {
		err = errors.Join(e.supports(claims), s.onlyOnce())
	}
	s = s.of(rule.Once)
	errs := []error{err, e.canMove(s, claims)}
	if rule.Skips == coverage.SkipSuperseded {
		errs = append(errs, e.canRaise())
	}
	for _, c := range claims {
		errs = append(errs, c.Validate())
	}
	if err := errors.Join(errs...); err != nil {
		return rule, err
	}
	if e.hooks != nil {
		e.hooks.declared(observe.Declaration{Rule: s.rule, Store: e.about.Name, Claims: claims, Info: rule})
	}
	return rule, nil
}

// Skipped tells the hook observe.Hooks.Skipped that the rule with this policy dropped work as
// if it were done. It is for authors of middlewares, whose rules decide when.
func (e *Engine) Skipped(ctx context.Context, p Policy, why coverage.SkipReason) {
	if e.hooks != nil {
		s := p.settings()
		e.hooks.skipped(ctx, observe.Skip{Rule: s.rule, Store: e.about.Name, Reason: why})
	}
}

// Describe returns what the engine's store says of itself: its name and what it can do.
// Acquisitions check it before any I/O, so a program needs it only to decide at start.
func (e *Engine) Describe() driver.Description { return e.about }

// supports reports whether the store supports claims.
func (e *Engine) supports(claims []Claim) error {
	if len(claims) > 1 && !e.about.Sets {
		return &driver.UnsupportedError{Feature: "several claims at once"}
	}
	for _, c := range claims {
		switch {
		case c.Mode == driver.ModeShared && !e.about.Shared:
			return &driver.UnsupportedError{Feature: "shared claims"}
		case c.Mode == driver.ModePermit && !e.about.Permits:
			return &driver.UnsupportedError{Feature: "permits"}
		}
	}
	return nil
}

func (e *Engine) canOnce(s *settings) error {
	if !e.about.Ledger && s.executor == nil {
		return &driver.UnsupportedError{Feature: "records of executions"}
	}
	return s.forOnce()
}

func (e *Engine) canRaise() error {
	if !e.about.Ledger {
		return &driver.UnsupportedError{Feature: "versions of keys"}
	}
	return nil
}

func (e *Engine) canInspect() error {
	if !e.about.Inspector {
		return &driver.UnsupportedError{Feature: "inspection"}
	}
	return nil
}
