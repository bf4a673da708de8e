package core

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/keyturn/keyturn/core/coverage"
)

// SerializeFunc returns fn with a lock around it: one call at a time per key,
// across every process of the fleet. For what has no middleware of its own: a
// cron job, a consumer, a workflow's activity.
//
//	deliver, err := core.SerializeFunc(eng, "deliver", func(m Message) string { return "user:" + m.To }, deliver)
//
// It works as [Engine.Do] does: fn's context is the lease's, fn's result and
// error come back as they are, joined with one that matches ErrLeaseLost if the
// lease was lost while it ran. A refused call returns the engine's error and
// the zero R; an empty key, or one that can't be, an error that matches
// ErrInvalidKey.
//
// Name names the rule to hooks and in [Engine.Coverage]; there is one of
// each per engine, so decorate when the program starts, not per call. The error
// joins what is wrong with the arguments; there is no I/O.
func SerializeFunc[T, R any](eng *Engine, name string, key func(T) string, fn func(context.Context, T) (R, error), opts ...CallOption) (func(context.Context, T) (R, error), error) {
	policy, err := decorate(eng, name, key != nil, fn != nil, false, opts)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, in T) (R, error) {
		var out R
		err := eng.Do(ctx, key(in), func(ctx context.Context) (err error) {
			out, err = fn(ctx, in)
			return err
		}, policy)
		return out, err
	}, nil
}

// OnceFunc returns fn carried out once per key: a repeat gets the first call's
// result without running fn, for as long as [WithRetention] says. It works as
// [Engine.Once] does; for the rest it is as [SerializeFunc].
//
// The result is stored as JSON unless [WithCodec] says otherwise. A repeat's error
// matches ErrResultNotKept if the result was over [WithResultLimit], and
// ErrResultCodec if what was stored is no R. ErrResultCodec in a first call says
// that the result could not be encoded: fn ran, nothing was stored, and a repeat
// runs it again.
// No fingerprint is compared: whatever makes two calls different belongs into
// the key.
func OnceFunc[T, R any](eng *Engine, name string, key func(T) string, fn func(context.Context, T) (R, error), opts ...CallOption) (func(context.Context, T) (R, error), error) {
	policy, err := decorate(eng, name, key != nil, fn != nil, true, opts)
	if err != nil {
		return nil, err
	}
	s, err := eng.settle([]CallOption{policy})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, in T) (R, error) {
		var result R
		k := key(in)
		out, err := eng.Once(ctx, k, func(ctx context.Context) ([]byte, error) {
			var err error
			if result, err = fn(ctx, in); err != nil {
				return nil, err
			}
			stored, err := s.codec.Marshal(result)
			return stored, codecError(k, err)
		}, policy)
		if err == nil && out.Duplicate {
			err = codecError(k, s.codec.Unmarshal(out.Result, &result))
		}
		return result, err
	}, nil
}

// decorate checks what both kinds have in common, and registers the function.
func decorate(eng *Engine, name string, key, fn, once bool, opts []CallOption) (Policy, error) {
	policy, err := NewPolicy(append([]CallOption{WithRule(name)}, opts...)...)
	errs := []error{err}
	for _, arg := range []struct {
		given bool
		want  string
	}{{eng != nil, "an engine"}, {name != "", "a name"}, {key, "a key function"}, {fn, "a function"}} {
		if !arg.given {
			errs = append(errs, &OptionError{Option: "func " + name, Want: arg.want})
		}
	}
	switch {
	case eng == nil || err != nil:
	case once:
		errs = append(errs, eng.SupportsOnce(policy))
	default:
		_, err := policy.settle(eng)
		errs = append(errs, err, eng.Supports(policy.Claims("a/b")...))
	}
	if err := errors.Join(errs...); err != nil {
		return Policy{}, err
	}
	info := policy.Info(once, "func")
	if err := eng.decorated.add(coverage.Target{Name: name, Rules: []coverage.Rule{info}}); err != nil {
		return Policy{}, err
	}
	eng.Declare(policy, info, "a/b")
	return policy, nil
}

func codecError(key string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %q: %w", ErrResultCodec, key, err)
}

// Coverage lists what [SerializeFunc] and [OnceFunc] decorated, in order, for
// reports together with what the middlewares cover.
func (e *Engine) Coverage() []coverage.Target {
	e.decorated.mu.Lock()
	defer e.decorated.mu.Unlock()
	return slices.Clone(e.decorated.all)
}

// decorated are the functions with a rule.
type decorated struct {
	mu  sync.Mutex
	all []coverage.Target
}

// add refuses a name that is taken: the reports could not tell the two apart,
// and somebody who decorates per call would fill the memory.
func (d *decorated) add(c coverage.Target) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if slices.ContainsFunc(d.all, func(o coverage.Target) bool { return o.Name == c.Name }) {
		return &OptionError{Option: "func", Value: c.Name, Want: "a name of its own"}
	}
	d.all = append(d.all, c)
	return nil
}

// Codec makes bytes of a result and back, as the functions of encoding/json do.
type Codec interface {
	Marshal(v any) ([]byte, error)
	Unmarshal(data []byte, v any) error
}

// WithCodec sets how [OnceFunc] stores results. Default: encoding/json.
func WithCodec(c Codec) Option {
	return option{"WithCodec", aboutCodec, func(s *settings) error {
		if isNil(c) {
			return &OptionError{Option: "WithCodec", Value: c, Want: "a codec"}
		}
		s.codec = c
		return nil
	}}
}

type jsonCodec struct{}

func (jsonCodec) Marshal(v any) ([]byte, error)      { return json.Marshal(v) }
func (jsonCodec) Unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }
