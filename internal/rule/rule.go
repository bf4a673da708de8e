// Package rule is what a rule is in every middleware: a key template or a key
// function, bound to the requests of one framework, with a checked policy. The
// middlewares differ in where values come from and how a refusal is answered;
// the rest is here, once.
package rule

import (
	"context"
	"errors"
	"fmt"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/keytmpl"
)

// Spec is a rule as its author wrote it, unchecked. R is the request a key is
// derived from.
type Spec[R any] struct {
	// Name says what the rule applies to, such as a full method name. It names
	// the rule in errors and to observers, so there must be few.
	Name string
	// Template or Key: where the key comes from. Exactly one.
	Template string
	Key      func(R) (string, error)
	// Once: process once, instead of one at a time.
	Once bool
	// Claim says in which mode a key is wanted; nil: core.Exclusive. Not for Once.
	Claim   func(key string) core.Claim
	Options []core.CallOption
}

// Source gives a placeholder's value in a request: One for plain ones, Each
// for those with [*].
type Source[R any] struct {
	One  func(R) (string, error)
	Each func(R) ([]string, error)
}

// Rule is a checked rule, ready for requests. It is safe for concurrent use.
type Rule[R any] struct {
	Name   string
	Once   bool
	engine *core.Engine
	policy core.Policy
	info   core.RuleInfo
	keys   func(R) ([]core.Claim, error)
}

// Info describes the rule, for reports.
func (r *Rule[R]) Info() core.RuleInfo { return r.info }

// ResultLimit is how many bytes a result of RunOnce may have.
func (r *Rule[R]) ResultLimit() int {
	limit, _ := r.engine.ResultLimit(r.policy) // checked by Compile
	return limit
}

// Compile checks a rule: its options, its template, each placeholder through
// bind (which says what a placeholder means, or why there is no such thing),
// and whether the engine's store can do it. All errors are joined.
func Compile[R any](eng *core.Engine, spec Spec[R], bind func(keytmpl.Placeholder) (Source[R], error)) (*Rule[R], error) {
	r := &Rule[R]{Name: spec.Name, Once: spec.Once, engine: eng, info: core.RuleInfo{Once: spec.Once, Key: spec.Template}}
	if spec.Key != nil {
		r.info.Key = "func"
	}
	if spec.Claim == nil {
		spec.Claim = core.Exclusive
	}
	var errs []error
	var err error
	switch {
	case eng == nil:
		errs = append(errs, &core.OptionError{Option: "New", Value: nil, Want: "an engine"})
	case spec.Once:
		errs = append(errs, eng.SupportsOnce())
	default:
		errs = append(errs, eng.Supports(spec.Claim("a")))
	}
	if r.policy, err = core.NewPolicy(append([]core.CallOption{core.WithRule(spec.Name)}, spec.Options...)...); err != nil {
		errs = append(errs, err)
	}
	if spec.Key != nil {
		r.keys = fromFunc(spec)
	} else if r.keys, err = fromTemplate(eng, spec, bind); err != nil {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("rule for %q: %w", spec.Name, err)
	}
	return r, nil
}

func fromFunc[R any](spec Spec[R]) func(R) ([]core.Claim, error) {
	return func(req R) ([]core.Claim, error) {
		k, err := spec.Key(req)
		if err != nil {
			return nil, err
		}
		if err := core.ValidateKey(k); err != nil {
			return nil, err
		}
		return []core.Claim{spec.Claim(k)}, nil
	}
}

func fromTemplate[R any](eng *core.Engine, spec Spec[R], bind func(keytmpl.Placeholder) (Source[R], error)) (func(R) ([]core.Claim, error), error) {
	tmpl, err := keytmpl.Parse(spec.Template)
	if err != nil {
		return nil, err
	}
	var errs []error
	sources := make([]Source[R], len(tmpl.Placeholders()))
	for i, p := range tmpl.Placeholders() {
		if sources[i], err = bind(p); err != nil {
			errs = append(errs, fmt.Errorf("template %q: %v: %w", spec.Template, p, err))
		}
	}
	if tmpl.Multiple() {
		switch {
		case spec.Once:
			errs = append(errs, fmt.Errorf("template %q: [*] makes several keys, and Once has one", spec.Template))
		case eng != nil:
			errs = append(errs, eng.Supports(core.Exclusive("a"), core.Exclusive("b")))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if tmpl.Multiple() {
		return severalKeys(tmpl, sources, spec.Claim), nil
	}
	return oneKey(tmpl, sources, spec.Claim), nil
}

func oneKey[R any](tmpl *keytmpl.Template, sources []Source[R], claim func(string) core.Claim) func(R) ([]core.Claim, error) {
	return func(req R) ([]core.Claim, error) {
		key, err := tmpl.Key(func(i int) (string, error) { return sources[i].One(req) })
		if err != nil {
			return nil, err
		}
		return []core.Claim{claim(key)}, nil
	}
}

func severalKeys[R any](tmpl *keytmpl.Template, sources []Source[R], claim func(string) core.Claim) func(R) ([]core.Claim, error) {
	return func(req R) ([]core.Claim, error) {
		keys, err := tmpl.Keys(func(i int) ([]string, error) {
			if sources[i].Each != nil {
				return sources[i].Each(req)
			}
			v, err := sources[i].One(req)
			return []string{v}, err
		})
		if err != nil {
			return nil, err
		}
		claims := make([]core.Claim, len(keys))
		for i, key := range keys {
			claims[i] = claim(key)
		}
		return claims, nil
	}
}

// Claims derives what to lock from a request. Any error is the caller's fault:
// a value is missing, malformed or too long.
func (r *Rule[R]) Claims(req R) ([]core.Claim, error) { return r.keys(req) }

// Serialize runs fn while holding claims. It tells the engine's word from fn's:
// refused is why fn did not run, or that the lease was lost while it did; own
// is what fn returned. The two must not be mixed up: fn may well return an
// error of another lease's. Opts are added to the rule's policy.
func (r *Rule[R]) Serialize(ctx context.Context, claims []core.Claim, fn func(context.Context) error, opts ...core.CallOption) (refused, own error) {
	refused = r.engine.DoAll(ctx, claims, func(ctx context.Context) error {
		own = fn(ctx)
		return nil
	}, r.with(opts)...)
	return refused, own
}

// RunOnce runs fn once per key. Refused is as for Serialize, with what Once
// adds to it.
func (r *Rule[R]) RunOnce(ctx context.Context, key string, fn func(context.Context) ([]byte, error), opts ...core.CallOption) (out core.Outcome, refused, own error) {
	out, err := r.engine.Once(ctx, key, func(ctx context.Context) ([]byte, error) {
		var result []byte
		if result, own = fn(ctx); own != nil {
			return nil, &failed{own} // abandons the claim
		}
		return result, nil
	}, r.with(opts)...)
	if _, ok := err.(*failed); ok {
		return out, nil, own
	}
	return out, err, own
}

// failed marks fn's own error on its way through the engine.
type failed struct{ error }

func (r *Rule[R]) with(opts []core.CallOption) []core.CallOption {
	return append([]core.CallOption{r.policy}, opts...)
}
