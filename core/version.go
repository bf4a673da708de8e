package core

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/lazyctx"
)

// AdvanceVersion tells the store a version of key, and returns the greatest version that it was ever told,
// by any process. A greater one than version means that something newer was done or will be:
//
//	newest, err := eng.AdvanceVersion(ctx, "index:42", v) // as soon as v is known
//	...
//	err = eng.Do(ctx, "index:42", func(ctx context.Context) error {
//		if newest, err := eng.AdvanceVersion(ctx, "index:42", v); err != nil || newest > v {
//			return err
//		}
//		return index(ctx) // no older version runs after this one
//	})
//
// The second call, under the lease, decides. It skips v if a greater version was announced. After v
// has run, no smaller version runs. A caller that announces a version should come back until it is
// done, because older ones give way to it from then on.
//
// A version is any number that grows, such as a counter or a time. The newest version may be told
// again, and then counts as the newest again. Version 0 only asks; the result is 0 if the store
// knows of none. The store keeps the version for [WithRetention] (default 24 h) after the last
// call. Leases and records of key do not affect it. [Engine.Forget] drops it, and so does a loss of
// the store's data.
//
// Errors: ErrUnavailable (the store may have the version or not; a repeat is safe), ErrInvalidKey,
// ErrInvalidOption, ErrClosed, [errors.ErrUnsupported] (before any I/O), and ctx's own error if ctx
// ended first. A store that does not answer is waited for as by [Engine.TryAcquire].
func (e *Engine) AdvanceVersion(ctx context.Context, key string, version uint64, opts ...CallOption) (newest uint64, err error) {
	s, err := e.settingsFor(opts)
	if err != nil {
		return 0, err
	}
	if err := errors.Join(s.onlyOnce(), s.noShadow()); err != nil {
		return 0, err
	}
	if s.moveFrom == nil {
		return e.raise(ctx, key, version, s)
	}
	outer, inner, err := e.split(s, false, nil)
	if err := errors.Join(err, e.backend().canAdvanceVersion()); err != nil { // before the other store is asked
		return 0, err
	}
	old, err := s.moveFrom.raise(ctx, key, version, outer)
	if err != nil {
		return 0, err
	}
	newest, err = e.raise(ctx, key, max(version, old), inner)
	return max(newest, old), err
}

// raise is AdvanceVersion on one store.
func (e *Engine) raise(ctx context.Context, key string, version uint64, s *settings) (newest uint64, err error) {
	if err := cmp.Or(e.checkKey(key), e.backend().canAdvanceVersion()); err != nil {
		return 0, err
	}
	reg := e.life.register(key)
	if err := reg.enter(); err != nil {
		return 0, err
	}
	defer reg.leave()
	atOnce := *s
	atOnce.failFast = true
	began, claims := time.Now(), []Claim{Exclusive(key)}
	if own := ctx.Err(); own != nil { // the caller has gone, so nothing is sent
		return 0, e.refusal(ctx, claims, &atOnce, own, 0)
	}
	bounded := lazyctx.Bounded(ctx, e.life.ending, atOnce.patience())
	defer bounded.Cancel()
	_, _, _, err = e.backend().circuit.Ask(bounded, began, driver.Request{Claims: claims}, func(ctx context.Context, _ driver.Request) (driver.Grant, *driver.Record, error) {
		asked := time.Now()
		newest, err = e.backend().store.AdvanceVersion(ctx, key, version, s.retention)
		e.storeCalled("advance_version", asked, err)
		return driver.Grant{}, nil, err
	})
	if err != nil {
		return 0, e.refusal(ctx, claims, &atOnce, err, time.Since(began))
	}
	return newest, nil
}
