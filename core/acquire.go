package core

import (
	"context"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
)

// acquire checks what can be checked without I/O, obtains a grant and makes it a lease. It
// returns exactly one of lease, record and error. claims belong to the engine: the caller of a
// public method may use its own slice again.
//
// Thousands of callers may wait in line at a time, each on a stack that doubles when it is
// full. So everything before and after the wait is in functions that have returned by then, or
// are not called yet.
func (e *Engine) acquire(ctx context.Context, claims []Claim, s *settings) (lease *Lease, rec *driver.Record, err error) {
	if err := sortClaims(claims); err != nil {
		return nil, nil, e.showError(err)
	}
	if err := e.backend().supports(claims); err != nil {
		return nil, nil, err
	}
	if err := s.forLease(); err != nil {
		return nil, nil, err
	}
	cov := e.covered(ctx, claims, s)
	if cov.left() { // Close does not wait for a nested lease: it waits for the work of the outer one
		reg := e.life.register(claims[0].Key)
		if err := reg.enter(); err != nil {
			return nil, nil, err
		}
		defer reg.leave()
	}
	r := requests.Get().(*request)
	r.engine, r.parent, r.cov, r.sent.Claims = e, ctx, cov, claims
	defer func() {
		panicked := lease == nil && rec == nil && err == nil // true if the store did not return
		if panicked {
			err = observe.ErrPanicked
		}
		if err = r.cleanUp(lease, s, err); err != nil {
			rec = nil
		}
		if !panicked { // after a panic somebody may still use r
			r.free()
		}
	}()
	if err = r.begin(s); err == nil {
		err = r.wait()
	}
	if err = r.waited(err); err == nil {
		lease, rec, err = r.obtain(s)
	}
	return lease, rec, err
}

// acquisition returns the hooks' description of a request.
func (e *Engine) acquisition(claims []Claim, s *settings) observe.Acquisition {
	return observe.Acquisition{Claims: e.showClaims(claims), Rule: s.rule, Wait: !s.failFast, Store: e.backend().about.Name, Shadow: s.shadow != notShadow}
}

// storeCalled tells the hooks, if there are any, of the store's answer to op.
func (e *Engine) storeCalled(op string, asked time.Time, err error) {
	if e.hooks != nil {
		e.hooks.storeCalled(e.backend().about.Name, op, time.Since(asked), err)
	}
}
