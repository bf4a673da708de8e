package rule

import (
	"context"
	"errors"
	"fmt"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/author"
	"github.com/keyturn/keyturn/core/coverage"
)

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
	if errors.Is(err, core.ErrWouldDeadlock) {
		err = fmt.Errorf("%w (is the middleware installed twice?)", err)
	}
	return out, err, own
}

// DoOnce is RunOnce for work without a result.
func (r *Rule[R]) DoOnce(ctx context.Context, keys Keys, fn func(context.Context) error, opts ...core.CallOption) (refused, own error) {
	out, refused, own := r.RunOnce(ctx, keys, func(ctx context.Context) ([]byte, error) { return nil, fn(ctx) }, opts...)
	if out.Duplicate && errors.Is(refused, core.ErrResultNotKept) {
		return nil, nil // done by something that had a result, which nobody needs here
	}
	return refused, own
}

// AdvanceVersion tells the store a version of key, like [core.Engine.AdvanceVersion], under the rule's policy.
func (r *Rule[R]) AdvanceVersion(ctx context.Context, key string, version uint64) (newest uint64, err error) {
	return r.engine.AdvanceVersion(ctx, key, version, r.alone...)
}

// Skipped tells the engine's hooks that a request was dropped.
func (r *Rule[R]) Skipped(ctx context.Context, why coverage.SkipReason) {
	author.Skipped(ctx, r.engine, r.policy, why)
}

// failed marks fn's own error on its way through the engine. Its executor looks into it.
type failed struct{ error }

func (f *failed) Unwrap() error { return f.error }

func (r *Rule[R]) with(opts []core.CallOption) []core.CallOption {
	if len(opts) == 0 {
		return r.alone
	}
	return append([]core.CallOption{r.policy}, opts...)
}
