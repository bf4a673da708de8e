package rule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/author"
	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/keytmpl"
)

// The engine accepts the largest set that a template can make; otherwise this does not compile.
// (keytmpl imports nothing, so each package has its own limit.)
const _ = uint(driver.MaxClaims - keytmpl.MaxKeys)

// Spec is a rule as its author wrote it, unchecked. R is the type of the requests.
type Spec[R any] struct {
	// Name says what the rule applies to, such as a full method name. It names the rule in
	// errors and to hooks, so there must be few names.
	Name string
	// Template, Key or Keys, exactly one of them: where the keys come from. Once has no Keys.
	Template string
	Key      func(R) (string, error)
	Keys     func(R) ([]string, error)
	// Skip, if set, returns true for requests that run without the rule.
	Skip func(R) bool
	// Shown is the key in reports. "": the template, or "func".
	Shown string
	// AdvancesVersion: requests raise versions of keys.
	AdvancesVersion bool
	// Once: process once, instead of one at a time.
	Once bool
	// Skips says why requests may be dropped; "" if they never are.
	Skips coverage.SkipReason
	// Defaults come before Options, which override them.
	Defaults []core.CallOption
	// Options are the rule's policy. They may also set the mode of the claims: core.WithShared,
	// core.WithPermits, core.WithHierarchy.
	Options []core.CallOption
}

// Rule is a checked rule, ready for requests. It is safe for concurrent use.
type Rule[R any] struct {
	Name   string
	Once   bool
	engine *core.Engine
	policy core.Policy
	alone  []core.CallOption // the policy as a slice, for calls without further options
	info   coverage.Rule
	like   []string // examples of the rule's keys
	keys   func(R) (Keys, error)

	parts    []*Rule[R] // if several rules cover a request
	modeOnly bool       // its own options say nothing but the mode
}

// Shadow reports whether requests run whatever becomes of their keys.
func (r *Rule[R]) Shadow() bool { return r.info.Shadow }

// Info describes the rule, for reports.
func (r *Rule[R]) Info() coverage.Rule {
	info := r.info
	if info.MinHold > 0 { // the store may have come since
		info.MinHold = author.Describe(r.engine).TTLs.Nearest(info.MinHold)
	}
	return info
}

// Engine returns the engine that the rule uses.
func (r *Rule[R]) Engine() *core.Engine { return r.engine }

// Compile checks a rule: its options, its template, and each placeholder. bind says where a
// placeholder's value comes from, or why there is no such value. All errors are joined. If
// there is none, the engine checks the rule and tells its hooks of it (author.Declare).
func Compile[R any](eng *core.Engine, spec Spec[R], bind func(keytmpl.Placeholder) (Source[R], error)) (*Rule[R], error) {
	r := &Rule[R]{Name: spec.Name, Once: spec.Once, engine: eng}
	var errs []error
	var err error
	if r.policy, err = spec.policy(); err != nil {
		r.policy, errs = core.Policy{}, append(errs, err) // so that the same errors are not reported again below
	}
	key := spec.Template
	var like []string // examples of the rule's keys
	switch {
	case spec.Keys != nil:
		key, like = "func", []string{"a/b", "a/c"}
		r.keys = func(req R) (Keys, error) { return r.several(spec.Keys(req)) }
	case spec.Key != nil:
		key, like = "func", []string{"a/b"}
		r.keys = func(req R) (Keys, error) { return r.one(spec.Key(req)) }
	default:
		if r.keys, like, err = fromTemplate(spec, bind); err != nil {
			errs = append(errs, err)
		}
	}
	if skip, keys := spec.Skip, r.keys; skip != nil {
		r.keys = func(req R) (Keys, error) {
			if skip(req) {
				return Keys{skipped: true}, nil
			}
			return keys(req)
		}
	}
	r.alone, r.like = []core.CallOption{r.policy}, like
	if own, err := core.NewPolicy(spec.Options...); err == nil {
		_, r.modeOnly = author.Modeless(own)
	}
	if eng == nil {
		errs = append(errs, &core.OptionError{Option: "New", Value: nil, Want: "an engine"})
	}
	if err = errors.Join(errs...); err == nil {
		about := coverage.Rule{Once: spec.Once, Partial: spec.Skip != nil, Key: cmp.Or(spec.Shown, key), Skips: spec.Skips}
		r.info, err = author.Declare(eng, author.Rule{Policy: r.policy, About: about, Like: like, AdvancesVersion: spec.AdvancesVersion})
	}
	if err != nil {
		return nil, fmt.Errorf("rule for %q: %w", spec.Name, err)
	}
	return r, nil
}

// policy makes one policy of the rule's name, its defaults and its options.
func (s Spec[R]) policy() (core.Policy, error) {
	return core.NewPolicy(slices.Concat([]core.CallOption{core.WithRule(s.Name)}, s.Defaults, s.Options)...)
}

// several makes keys of what a key function has returned, in any order and as often as it likes.
func (r *Rule[R]) several(keys []string, err error) (Keys, error) {
	if err != nil {
		return Keys{}, err
	}
	if len(keys) == 0 {
		return Keys{}, fmt.Errorf("key function: %w", keytmpl.ErrMissingValue)
	}
	if len(keys) > driver.MaxClaims { // how many often depends on the request: it is the caller's fault
		return Keys{}, fmt.Errorf("key function: %w: %d keys; the maximum is %d", core.ErrInvalidKey, len(keys), driver.MaxClaims)
	}
	for _, k := range keys {
		if err := r.check(k); err != nil {
			return Keys{}, err
		}
	}
	if len(keys) == 1 {
		return Keys{First: keys[0]}, nil
	}
	keys = slices.Clone(keys)
	slices.Sort(keys)
	keys = slices.Compact(keys)
	return Keys{First: keys[0], more: keys[1:]}, nil
}

func (r *Rule[R]) one(key string, err error) (Keys, error) {
	if err == nil {
		err = r.check(key)
	}
	if err != nil {
		return Keys{}, err
	}
	return Keys{First: key}, nil
}

// check refuses a key that no lock can have.
func (r *Rule[R]) check(k string) error {
	if err := driver.ValidateKey(k); err != nil {
		return err
	}
	if r.info.Hierarchy {
		var bad *driver.ClaimError
		if claims := core.Under(k); errors.As(claims[len(claims)-1].Validate(), &bad) {
			return &core.KeyError{Key: k, Reason: bad.Reason} // to the caller, the key is wrong
		}
	}
	return nil
}

// fromTemplate returns the function that makes keys, and examples of such keys.
func fromTemplate[R any](spec Spec[R], bind func(keytmpl.Placeholder) (Source[R], error)) (func(R) (Keys, error), []string, error) {
	tmpl, err := keytmpl.Parse(spec.Template)
	if err != nil {
		return nil, nil, err
	}
	var errs []error
	sources := make([]Source[R], len(tmpl.Placeholders()))
	for i, p := range tmpl.Placeholders() {
		if sources[i], err = bind(p); err != nil {
			errs = append(errs, fmt.Errorf("template %q: %v: %w", spec.Template, p, err))
		}
	}
	if tmpl.Multiple() && spec.Once {
		errs = append(errs, fmt.Errorf("template %q: [*] makes several keys, but Once needs exactly one", spec.Template))
	}
	like, _ := tmpl.Keys(func(i int) ([]string, error) {
		if tmpl.Placeholders()[i].Multiple() {
			return []string{"1", "2"}, nil
		}
		return []string{"1"}, nil // no filter refuses this value
	})
	if err := errors.Join(errs...); err != nil {
		return nil, like, err
	}
	if tmpl.Multiple() {
		return severalKeys(tmpl, sources), like, nil
	}
	return oneKey(tmpl, sources), like, nil
}

func oneKey[R any](tmpl *keytmpl.Template, sources []Source[R]) func(R) (Keys, error) {
	return func(req R) (Keys, error) {
		key, err := tmpl.Key(func(i int) (string, error) { return sources[i].One(req) })
		return Keys{First: key}, err
	}
}

func severalKeys[R any](tmpl *keytmpl.Template, sources []Source[R]) func(R) (Keys, error) {
	return func(req R) (Keys, error) {
		keys, err := tmpl.Keys(func(i int) ([]string, error) {
			if sources[i].Each != nil {
				return sources[i].Each(req)
			}
			v, err := sources[i].One(req)
			return []string{v}, err
		})
		if err != nil {
			return Keys{}, err
		}
		return Keys{First: keys[0], more: keys[1:]}, nil
	}
}

// Keys are the keys of a request. Most rules have one key, which needs no slice.
type Keys struct {
	First string
	more  []string

	claims  []core.Claim // of several rules, whose modes may differ; nil: the policy says how to claim
	skipped bool         // the request runs without the rule
}

// All returns all keys.
func (k Keys) All() []string { return append([]string{k.First}, k.more...) }

// Keys makes the keys of a request. Their mode comes from the policy, when they are claimed.
// Any error is the caller's fault: a value is missing, malformed or too long. A rule that is a shadow
// has no errors.
func (r *Rule[R]) Keys(req R) (Keys, error) {
	keys, err := r.keys(req)
	return r.Spare(keys, err)
}

// Spare returns no keys and no error if err is why there are no keys and the rule is a shadow: its
// requests run all the same (core.WithShadow).
func (r *Rule[R]) Spare(keys Keys, err error) (Keys, error) {
	if err != nil && r.info.Shadow {
		return Keys{}, nil
	}
	return keys, err
}

// Missing reports whether there are no keys, and the request runs anyway.
func (k Keys) Missing() bool { return k.First == "" }

// Skipped reports whether the request runs without the rule.
func (k Keys) Skipped() bool { return k.skipped }

// Serialize runs fn while holding keys. It keeps the engine's error apart from fn's own.
// refused says why fn did not run, or that the lease was lost while it ran. own is what fn
// returned. The two must not be mixed up: fn may return an error about another lease. opts are
// added to the rule's policy.
func (r *Rule[R]) Serialize(ctx context.Context, keys Keys, fn func(context.Context) error, opts ...core.CallOption) (refused, own error) {
	work := func(ctx context.Context) error {
		own = fn(ctx)
		return nil
	}
	if keys.skipped {
		return nil, fn(ctx)
	}
	if len(opts) == 0 && len(keys.more) == 0 && keys.claims == nil {
		refused = r.engine.Do(ctx, keys.First, work, r.alone...)
	} else {
		refused = r.do(ctx, keys, work, opts)
	}
	return refused, own
}

// do is Serialize for several keys, or with options. It is a function of its own, so that its
// variables are not on the stack of every waiting caller.
func (r *Rule[R]) do(ctx context.Context, keys Keys, work func(context.Context) error, opts []core.CallOption) error {
	claims := keys.claims
	if claims == nil {
		for _, key := range keys.All() {
			claims = append(claims, core.Exclusive(key))
		}
	}
	return r.engine.DoAll(ctx, claims, work, r.with(opts)...)
}

// RunOnce runs fn once per key, which is the first of keys. refused is as in Serialize, with the errors of Once in
// addition. If fn returns core.ErrSkipResult, it has succeeded and its result is not kept. A result
// of which nobody knows whether it is whole is not kept either: fn's context had ended when it
// returned. A function that then gives up often returns what it has, without an error.
func (r *Rule[R]) RunOnce(ctx context.Context, keys Keys, fn func(context.Context) ([]byte, error), opts ...core.CallOption) (out core.Outcome, refused, own error) {
	if keys.skipped {
		_, own = fn(ctx)
		if own == core.ErrSkipResult {
			own = nil
		}
		return out, nil, own
	}
	out, err := r.engine.Once(ctx, keys.First, func(ctx context.Context) ([]byte, error) {
		var result []byte
		switch result, own = fn(ctx); own {
		case nil:
			if result != nil && ctx.Err() != nil {
				return result, core.ErrSkipResult
			}
			return result, nil
		case core.ErrSkipResult:
			own = nil
			return result, core.ErrSkipResult
		}
		return nil, &failed{own} // an error abandons the claim
	}, r.with(opts)...)
	if _, ok := err.(*failed); ok {
		return out, nil, own
	}
	return out, err, own
}

// AdvanceVersion tells the store a version of key, like [core.Engine.AdvanceVersion], under the rule's policy.
func (r *Rule[R]) AdvanceVersion(ctx context.Context, key string, version uint64) (newest uint64, err error) {
	return r.engine.AdvanceVersion(ctx, key, version, r.alone...)
}

// Skipped tells the engine's hooks that a request was dropped.
func (r *Rule[R]) Skipped(ctx context.Context, why coverage.SkipReason) {
	author.Skipped(ctx, r.engine, r.policy, why)
}

// failed marks fn's own error on its way through the engine.
type failed struct{ error }

func (r *Rule[R]) with(opts []core.CallOption) []core.CallOption {
	if len(opts) == 0 {
		return r.alone
	}
	return append([]core.CallOption{r.policy}, opts...)
}
