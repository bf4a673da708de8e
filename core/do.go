package core

import (
	"context"
	"slices"
)

// Do runs fn while holding key. fn's context is the lease's ([LeaseFrom] finds the lease there).
// It ends when the lease is lost. The key is held until fn returns, even if ctx ends before. A
// panic of fn releases it.
//
// Errors: those of [Engine.Acquire], then fn did not run; fn's error as it is; and, if the lease was
// lost while fn ran, one that matches ErrLeaseLost, and fn's error, too. A release that the store
// does not answer is not an error here, because the work was done while the key was held. The
// engine logs it and sends it again; see [Lease.Release].
func (e *Engine) Do(ctx context.Context, key string, fn func(context.Context) error, opts ...CallOption) error {
	return e.doSet(ctx, []Claim{Exclusive(key)}, fn, opts)
}

// DoAll is [Engine.Do] for a set of claims, as in [Engine.AcquireAll]. Its errors are those of both.
func (e *Engine) DoAll(ctx context.Context, claims []Claim, fn func(context.Context) error, opts ...CallOption) error {
	if err := checkCount(claims); err != nil {
		return err
	}
	return e.doSet(ctx, slices.Clone(claims), fn, opts)
}

// doSet is DoAll with a slice of claims that it may keep.
func (e *Engine) doSet(ctx context.Context, claims []Claim, fn func(context.Context) error, opts []CallOption) error {
	s, err := e.settingsFor(opts)
	if err != nil {
		return err
	}
	if fn == nil {
		return errNoFunction
	}
	return e.doClaims(ctx, claims, s, fn)
}

// doClaims is doSet with checked settings.
func (e *Engine) doClaims(ctx context.Context, claims []Claim, s *settings, fn func(context.Context) error) error {
	if s.shadow != shadowed && s.moveFrom == nil {
		return e.doPlain(ctx, claims, s, fn)
	}
	if err := s.onlyOnce(); err != nil { // doPlain finds that too late
		return err
	}
	if s.shadow == shadowed {
		return e.doShadow(ctx, claims, s, fn)
	}
	return e.doMoving(ctx, claims, s, fn)
}

// doPlain is doClaims on this engine's store alone. It calls none of the functions above: in a circle of
// calls, the compiler would put fn and all that it uses on the heap, for every call of Do.
func (e *Engine) doPlain(ctx context.Context, claims []Claim, s *settings, fn func(context.Context) error) error {
	claims = s.shape(claims)
	lease, _, err := e.acquire(ctx, claims, s)
	if err != nil {
		if mayRunUnlocked(ctx, s, err) {
			e.runsUnlocked(ctx, claims, s, err)
			return fn(ctx)
		}
		return err
	}
	lease.run(ctx, func(ctx context.Context) { err = fn(ctx) })
	return lease.done(ctx, err)
}

// errNoFunction comes before any I/O. A panic would come while the key is held.
var errNoFunction = &OptionError{Option: "fn", Want: "a function"}
