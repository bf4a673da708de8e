package rule

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/refusal"
	"github.com/keyturn/keyturn/keytmpl"
)

// Keys are the keys of a request. Most rules have one key, which needs no slice.
type Keys struct {
	First string
	more  []string

	claims  []core.Claim // of several rules, whose modes may differ; nil: the policy says how to claim
	skipped bool         // the request runs without the rule
}

// All returns all keys.
func (k Keys) All() []string { return append([]string{k.First}, k.more...) }

// Missing reports whether there are no keys, and the request runs anyway.
func (k Keys) Missing() bool { return k.First == "" }

// Skipped reports whether the request runs without the rule.
func (k Keys) Skipped() bool { return k.skipped }

// Keys makes the keys of a request of ctx. Their mode comes from the policy, when they are claimed.
// An error is the caller's fault, because a value is missing, malformed or too long, or it is a
// [*refusal.KeyFailed]. A rule that is a shadow has no errors.
func (r *Rule[R]) Keys(ctx context.Context, req R) (Keys, error) {
	keys, err := r.Spare(r.keys(req))
	return keys, refusal.OfKeys(ctx, err)
}

// Required makes the keys of a request like Keys, but a shadow has errors, too. It is for work that
// needs a key even though nothing is locked.
func (r *Rule[R]) Required(req R) (Keys, error) { return r.keys(req) }

// Spare returns no keys and no error if err is why there are no keys and the rule is a shadow: its
// requests run all the same (core.WithShadow).
func (r *Rule[R]) Spare(keys Keys, err error) (Keys, error) {
	if err != nil && r.info.Shadow {
		return Keys{}, nil
	}
	return keys, err
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
	var wrong *core.KeyError
	if errors.As(driver.ValidateKey(k), &wrong) {
		wrong.Key = r.engine.ShowKey(k)
		return wrong
	}
	if r.info.Hierarchy {
		var bad *driver.ClaimError
		if claims := core.Under(k); errors.As(claims[len(claims)-1].Validate(), &bad) {
			return &core.KeyError{Key: r.engine.ShowKey(k), Reason: bad.Reason} // to the caller, the key is wrong
		}
	}
	return nil
}
