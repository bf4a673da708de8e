package core

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/authoring"
	"github.com/keyturn/keyturn/core/observe"
)

func init() {
	authoring.Declare = func(engine any, r authoring.Rule) (coverage.Rule, error) { return engine.(*Engine).declare(r) }
	authoring.Skipped = func(ctx context.Context, engine, policy any, why coverage.SkipReason) {
		engine.(*Engine).skipped(ctx, policy.(Policy), why)
	}
	authoring.Modeless = func(policy any) (any, bool) { return policy.(Policy).modeless() }
	authoring.Describe = func(engine any) driver.Description { return engine.(*Engine).backend().about }
	authoring.Logger = func(engine any) *slog.Logger { return engine.(*Engine).log.logger() }
}

// declaration is a rule as a store has it.
type declaration struct {
	observe.Declaration
	asked time.Duration // the rule's min hold; the store's may be longer
}

// declare implements author.Declare.
func (e *Engine) declare(r authoring.Rule) (coverage.Rule, error) {
	d, bound, err := e.note(r)
	if bound && err == nil {
		e.tellDeclared(d)
	}
	return d.Info, err
}

// note checks a rule. If the engine has no store yet, it also keeps the rule for Bind.
func (e *Engine) note(r authoring.Rule) (d declaration, bound bool, err error) {
	e.late.mu.Lock()
	defer e.late.mu.Unlock()
	b := e.backend()
	bound = b != e.late.absent
	if d, err = e.check(b, r); err == nil && !bound {
		e.late.rules = append(e.late.rules, r)
	}
	return d, bound, err
}

// check checks a rule against a store.
func (e *Engine) check(b *backend, r authoring.Rule) (d declaration, err error) {
	policy := r.Policy.(Policy)
	d.Rule, d.Store, d.Info = policy.settings().rule, b.about.Name, r.About
	s, err := b.settingsFor([]CallOption{policy})
	if err != nil {
		return d, err
	}
	rule := &d.Info
	rule.Mode, rule.Permits, rule.Hierarchy, rule.RunUnlocked, rule.Shadow = s.mode, s.permits, s.hierarchy, s.runUnlocked, s.shadow != notShadow
	if d.asked = s.minHold; d.asked > 0 {
		rule.MinHold = b.about.TTLs.Nearest(d.asked)
	}
	claims := make([]Claim, len(r.Like))
	for i, key := range r.Like {
		claims[i] = Exclusive(key)
	}
	claims = s.shape(claims)
	if rule.Once {
		rule.ResultLimit = s.resultLimit
		err = b.canOnce(s)
	} else {
		err = errors.Join(b.supports(claims), s.onlyOnce())
	}
	errs := []error{err}
	if s.moveFrom != nil {
		_, _, err := e.split(s, rule.Once, claims)
		errs = append(errs, err)
	}
	if r.AdvancesVersion || rule.Skips == coverage.SkipSuperseded {
		errs = append(errs, b.canAdvanceVersion())
		if s.moveFrom != nil {
			errs = append(errs, s.moveFrom.backend().canAdvanceVersion())
		}
	}
	for _, c := range claims {
		errs = append(errs, c.Validate())
	}
	d.Claims = claims
	return d, errors.Join(errs...)
}

// tellDeclared tells the hooks of a rule. The log is told if the store has no lease as short as the
// rule's min hold.
func (e *Engine) tellDeclared(d declaration) {
	if least := d.Info.MinHold; least > d.asked && least == e.backend().about.TTLs.Nearest(driver.MinTTL) {
		e.log.write(context.Background(), slog.LevelWarn, "keyturn: the store keeps a rule's key for longer than the rule asks for, so a job whose next tick comes sooner leaves it out",
			"rule", d.Rule, "least_hold", least)
	}
	if e.hooks != nil {
		e.hooks.declared(d.Declaration)
	}
}

// skipped implements author.Skipped.
func (e *Engine) skipped(ctx context.Context, p Policy, why coverage.SkipReason) {
	if e.hooks != nil {
		s := p.settings()
		e.hooks.skipped(ctx, observe.Skip{Rule: s.rule, Store: e.backend().about.Name, Reason: why})
	}
}

// supports reports whether the store supports claims.
func (b *backend) supports(claims []Claim) error {
	if len(claims) > 1 && !b.about.Sets {
		return &driver.UnsupportedError{Feature: "several claims at once"}
	}
	for _, c := range claims {
		switch {
		case c.Mode == driver.ModeShared && !b.about.Shared:
			return &driver.UnsupportedError{Feature: "shared claims"}
		case c.Mode == driver.ModePermit && !b.about.Permits:
			return &driver.UnsupportedError{Feature: "permits"}
		}
	}
	return nil
}

func (b *backend) canOnce(s *settings) error {
	if !b.about.Ledger && s.executor == nil {
		return &driver.UnsupportedError{Feature: "records of executions"}
	}
	return s.forOnce()
}

func (b *backend) canAdvanceVersion() error {
	if !b.about.Ledger {
		return &driver.UnsupportedError{Feature: "versions of keys"}
	}
	return nil
}

func (b *backend) canInspect() error {
	if !b.about.Inspector {
		return &driver.UnsupportedError{Feature: "inspection"}
	}
	return nil
}
