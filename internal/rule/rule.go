package rule

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/author"
	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/refusal"
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
	// Precheck, if set, refuses requests before they ask for the lock, and before a replay; not those that
	// run without the rule.
	Precheck func(R) error
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

	skip     func(R) bool
	precheck func(R) error

	parts    []*Rule[R] // if several rules cover a request
	modeOnly bool       // its own options say nothing but the mode
}

// Shadow reports whether requests run whatever becomes of their keys.
func (r *Rule[R]) Shadow() bool { return r.info.Shadow }

// Check asks the prechecks of the rules that cover a request. Its error is a [*refusal.Denied].
func (r *Rule[R]) Check(req R) error {
	for _, p := range r.parts {
		if err := p.Check(req); err != nil {
			return err
		}
	}
	if r.precheck == nil || r.skip != nil && r.skip(req) {
		return nil
	}
	if err := r.precheck(req); err != nil {
		return &refusal.Denied{Err: err}
	}
	return nil
}

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
	r := &Rule[R]{Name: spec.Name, Once: spec.Once, engine: eng, skip: spec.Skip, precheck: spec.Precheck}
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
		r.keys, like, err = fromTemplate(spec, bind)
		errs = append(errs, err)
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
