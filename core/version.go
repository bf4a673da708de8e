package core

import (
	"context"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/lazyctx"
)

// Raise tells the store of a version of key, and returns the greatest that it was
// ever told of, by whatever process. If that is greater than version, something
// newer is on its way, or was done already:
//
//	newest, err := eng.Raise(ctx, "index:42", v) // as soon as v is known
//	...
//	err = eng.Do(ctx, "index:42", func(ctx context.Context) error {
//		if newest, err := eng.Raise(ctx, "index:42", v); err != nil || newest > v {
//			return err
//		}
//		return index(ctx) // no older version runs after this one
//	})
//
// The second look, under the lease, is the one that decides: what is skipped there
// is older than something that was announced, and what runs is followed by nothing
// older. Who announces a version should be sure to come back for it until it is
// done, since older ones give way to it from then on.
//
// A version is any number that grows: a counter, or a time. Of equal ones each is
// the newest. Version 0 only asks: it returns 0 where the store knows of none.
//
// The store remembers the version for [WithRetention] after the last call, 24 h by
// default. Leases and records of key do not touch it; [Engine.Forget] drops it, as
// does a store that loses its data.
//
// It is bounded as [Engine.TryAcquire] is. Errors: one that matches ErrUnavailable
// (the store may have been told or not; a repeat is safe), ErrInvalidKey,
// ErrInvalidOption, ErrClosed, errors.ErrUnsupported (before any
// I/O); ctx's own when ctx ended first.
func (e *Engine) Raise(ctx context.Context, key string, version uint64, opts ...CallOption) (newest uint64, err error) {
	s, err := e.settle(opts)
	if err == nil {
		err = driver.ValidateKey(key)
	}
	if err == nil {
		err = e.canRaise()
	}
	reg := e.life.register(key)
	if err == nil {
		err = reg.enter()
	}
	if err != nil {
		return 0, err
	}
	defer reg.leave()
	atOnce := *s
	atOnce.failFast = true
	began, claims := time.Now(), []Claim{Exclusive(key)}
	if own := ctx.Err(); own != nil { // no request for somebody who has gone
		return 0, e.refusal(ctx, claims, &atOnce, own, 0)
	}
	bounded := lazyctx.Bounded(ctx, e.life.ending, atOnce.patience())
	defer bounded.Cancel()
	_, _, _, err = e.circuit.Ask(bounded, began, driver.Request{Claims: claims}, func(ctx context.Context, _ driver.Request) (driver.Grant, *driver.Record, error) {
		asked := time.Now()
		newest, err = e.store.Raise(ctx, key, version, s.retention)
		e.storeCalled("raise", asked, err)
		return driver.Grant{}, nil, err
	})
	if err != nil {
		return 0, e.refusal(ctx, claims, &atOnce, err, time.Since(began))
	}
	return newest, nil
}
