package lockfunc

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/author"
	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/internal/refusal"
	"github.com/keyturn/keyturn/internal/rule"
)

// Serialize returns fn with a lock around it: one call at a time per key.
//
// The name names the rule to hooks and in [Locks.Coverage]; each name is used once per
// [Locks]. key makes the key of a call. It is called from many goroutines. Options are the
// rule's policy, such as core.WithMaxWait; core.WithRule gives it another name for hooks.
//
// The returned function works as core.Engine.Do does. fn's context is the lease's. fn's
// result and error come back as they are; if the lease was lost while fn ran, the error also
// matches core.ErrLeaseLost. A refused call returns the engine's error and the zero R. A key
// that is empty or can't name a lock is an error that matches core.ErrInvalidKey.
//
// Serialize does no I/O. Its error joins what is wrong with the arguments. It matches
// core.ErrInvalidOption, or errors.ErrUnsupported if the engine's store can't do what the
// options ask for.
func Serialize[T, R any](locks *Locks, name string, key func(T) string, fn func(context.Context, T) (R, error), opts ...core.CallOption) (func(context.Context, T) (R, error), error) {
	return serialized(locks, name, ofCall(key), fn, opts)
}

// SerializeKeys is [Serialize] with a function that gets the call's context, and returns all keys of
// the call. They are taken together, as one set. No key is an error that matches
// keytmpl.ErrMissingValue. An error of keys comes back as it is.
func SerializeKeys[T, R any](locks *Locks, name string, keys func(context.Context, T) ([]string, error), fn func(context.Context, T) (R, error), opts ...core.CallOption) (func(context.Context, T) (R, error), error) {
	spec := rule.Spec[call[T]]{}
	if keys != nil {
		spec.Keys = func(c call[T]) ([]string, error) { return keys(c.ctx, c.in) }
	}
	return serialized(locks, name, spec, fn, opts)
}

// call is what keys are made from.
type call[T any] struct {
	ctx context.Context
	in  T
}

// ofCall is the source of keys that do not need the context.
func ofCall[T any](key func(T) string) (spec rule.Spec[call[T]]) {
	if key != nil {
		spec.Key = func(c call[T]) (string, error) { return key(c.in), nil }
	}
	return spec
}

func serialized[T, R any](locks *Locks, name string, spec rule.Spec[call[T]], fn func(context.Context, T) (R, error), opts []core.CallOption) (func(context.Context, T) (R, error), error) {
	r, err := compile(locks, name, spec, fn, opts)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, in T) (R, error) {
		var out R
		keys, err := r.Keys(ctx, call[T]{ctx, in})
		if err != nil {
			return out, locks.answer(ctx, r.Name, keys, nil, err)
		}
		refused, own := r.Serialize(ctx, keys, func(ctx context.Context) (err error) {
			out, err = fn(ctx, in)
			return err
		})
		return out, locks.answer(ctx, r.Name, keys, own, refused)
	}, nil
}

// Once returns fn carried out once per key: a repeat gets the first call's result without
// running fn, for as long as core.WithRetention says. It works as core.Engine.Once does. The
// arguments and errors are those of [Serialize].
//
// The result is stored as by core.Once: as JSON, and bytes as they are. For another format, fn returns
// bytes. The error of a repeat matches
// core.ErrResultNotKept if the result was over core.WithResultLimit, or if fn's context had ended
// when it returned, because the result may be a part; and core.ErrEncoding if what
// was stored is no R. In a first call ErrEncoding says that the result can't be encoded: fn ran,
// nothing was stored, and a repeat runs it again.
//
// No fingerprint is compared: put whatever makes two calls different into the key.
func Once[T, R any](locks *Locks, name string, key func(T) string, fn func(context.Context, T) (R, error), opts ...core.CallOption) (func(context.Context, T) (R, error), error) {
	return once(locks, name, ofCall(key), fn, opts)
}

// OnceKey is [Once] with a key function that gets the call's context. An error of key comes back as it is.
func OnceKey[T, R any](locks *Locks, name string, key func(context.Context, T) (string, error), fn func(context.Context, T) (R, error), opts ...core.CallOption) (func(context.Context, T) (R, error), error) {
	spec := rule.Spec[call[T]]{}
	if key != nil {
		spec.Key = func(c call[T]) (string, error) { return key(c.ctx, c.in) }
	}
	return once(locks, name, spec, fn, opts)
}

func once[T, R any](locks *Locks, name string, spec rule.Spec[call[T]], fn func(context.Context, T) (R, error), opts []core.CallOption) (func(context.Context, T) (R, error), error) {
	spec.Once = true
	r, err := compile(locks, name, spec, fn, opts)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, in T) (R, error) {
		var result R
		keys, err := r.Keys(ctx, call[T]{ctx, in})
		if err != nil {
			return result, locks.answer(ctx, r.Name, keys, nil, err)
		}
		out, refused, own := r.RunOnce(ctx, keys, func(ctx context.Context) ([]byte, error) {
			var err error
			if result, err = fn(ctx, in); err != nil {
				return nil, err
			}
			if r.Info().Shadow { // nothing is stored
				return nil, nil
			}
			stored, err := author.Encode(result)
			if stored == nil && err == nil && ctx.Err() != nil { // RunOnce would take nil for a rule without results
				return nil, core.ErrSkipResult
			}
			return stored, encodingError(r, keys, err)
		})
		err = locks.answer(ctx, r.Name, keys, own, refused)
		if err == nil && out.Duplicate {
			err = encodingError(r, keys, author.Decode(out.Result, &result))
		}
		return result, err
	}, nil
}

func encodingError[T any](r *rule.Rule[call[T]], keys rule.Keys, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("lockfunc: %w: of %q: %w", core.ErrEncoding, r.Engine().ShowKey(keys.First), err)
}

// answer returns fn's own error unchanged if the engine has nothing to add, and that of a key function.
func (l *Locks) answer(ctx context.Context, name string, keys rule.Keys, own, refused error) error {
	if refused == nil {
		return own
	}
	standard := errors.Join(own, refused)
	if own == nil {
		standard = refused
	}
	if failed, ok := refused.(*refusal.KeyFailed); ok {
		standard = failed.Err
	}
	if l.handler == nil {
		return standard
	}
	return cmp.Or(l.handler(ctx, refusal.Told(name, keys.First, refused, standard)), standard)
}

// compile checks a function's rule and adds it to the list.
func compile[T, R any](locks *Locks, name string, spec rule.Spec[call[T]], fn func(context.Context, T) (R, error), opts []core.CallOption) (*rule.Rule[call[T]], error) {
	var errs []error
	for _, arg := range []struct {
		given bool
		want  string
	}{
		{locks != nil && locks.eng != nil, "locks with an engine"},
		{name != "", "a name"},
		{spec.Key != nil || spec.Keys != nil, "a key function"},
		{fn != nil, "a function"},
	} {
		if !arg.given {
			errs = append(errs, &core.OptionError{Option: "func " + name, Want: arg.want})
		}
	}
	_, err := core.NewPolicy(opts...)
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, fmt.Errorf("lockfunc: %w", err)
	}
	spec.Name, spec.Options = name, opts
	r, err := rule.Compile(locks.eng, spec, nil)
	if err != nil {
		return nil, fmt.Errorf("lockfunc: %w", err)
	}
	return r, locks.list.add(coverage.Target{Name: name, Rules: []coverage.Rule{r.Info()}})
}
