package core

import (
	"context"
	"errors"
	"slices"

	"github.com/keyturn/keyturn/core/driver"
)

// WithMoveFrom has [Engine.Do], [Engine.DoAll], [Engine.Once], [Engine.Lead] and [Engine.AdvanceVersion] hold
// their claims on old as well, an engine over another store, with the same options. It is for a fleet
// that moves from that store to this engine's while it works:
//
//  1. Deploy the version with the option. It excludes processes that know only old, and those that
//     have the option.
//  2. When none is left that knows only old, and a second later at the earliest, deploy the version
//     without it and without old. It excludes those that have the option. Within that second its
//     tokens might be smaller than the last ones of old, if old's clock is ahead.
//
// old's claims are taken first, and are held while the call waits for this engine's. So all processes
// take them in the same order, and don't deadlock. [WithMaxWait] bounds each of the two waits. An
// error of either is the call's error, with its usual meaning. A lease that is lost on either store
// ends the function's context, and [Lease.Err], [Lease.Done] and [AssertHeld] tell of it.
//
// The context has both leases; [LeaseFrom] finds this engine's. Its token is greater than those of
// all earlier holders on either store, also of those that come after it and know only old. For that
// the call waits, before its function or after it, for as long as the clocks of the two stores
// differ. If that is more than a second, the error matches ErrUnavailable, and the function does not
// run. So it is in a context that holds the key on this engine's store alone: give the option to the
// outer call, too.
//
// Once looks for a record on old, then on this engine's store, and leaves one on both. A record that
// was left before step 1 is only on old: let step 1 last as long as repeats may come.
//
// Meanwhile no lease is handed on within a process or lingers, so each call asks both stores. [ReleaseEarly]
// ends both leases, and [Lease.Extend] extends both. [Lease.Downgrade] changes this engine's alone, and
// [Lease.Deadline] is this engine's.
//
// Given to [New], it holds for all calls. Do not close old before this engine. [Engine.Acquire],
// [Engine.TryAcquire] and [Engine.AcquireAll] return one lease, so there the option is an
// [*OptionError]; so are a nil old, the engine itself, and one that was made with this option.
func WithMoveFrom(old *Engine) Option {
	return option(func(s *settings) error {
		s.moveFrom = old
		return driver.CheckOption(old != nil, "WithMoveFrom", nil, "an engine")
	})
}

// noMove refuses the option for calls that return one lease.
func (s *settings) noMove() error {
	return driver.CheckOption(s.moveFrom == nil, "WithMoveFrom", "...", "no such option except for calls with a function")
}

// split returns the settings for old, and those for this engine, or says why a call, of Once or not, cannot hold
// claims on both stores.
func (e *Engine) split(s *settings, once bool, claims []Claim) (outer, inner *settings, err error) {
	b := s.moveFrom.backend()
	if s.moveFrom == e || b.defaults.moveFrom != nil { // whose own old store nobody would hold
		return nil, nil, &OptionError{Option: "WithMoveFrom", Value: "...", Want: "another engine, which moves from none"}
	}
	o, i := *s, *s
	o.moveFrom, i.moveFrom = nil, nil
	if s.executor != nil {
		o.executor = innerExecutor{}
	}
	o.fresh, i.fresh, o.linger, i.linger = true, true, 0, 0
	errs := []error{o.fit(b.about), b.supports(claims)}
	if once {
		errs = append(errs, b.canOnce(&o))
	}
	return &o, &i, errors.Join(errs...)
}

// innerExecutor is old's executor. The call within it has the one that counts, so the execution succeeds
// although old can't record it.
type innerExecutor struct{}

// Execute implements Executor.
func (innerExecutor) Execute(ctx context.Context, _ string, fn func(context.Context) (driver.Record, error)) (rec driver.Record, first bool, err error) {
	rec, err = fn(ctx)
	return rec, true, err
}

// Validate implements Executor.
func (innerExecutor) Validate() error { return nil }

// doMoving is doClaims on both stores.
func (e *Engine) doMoving(ctx context.Context, claims []Claim, s *settings, fn func(context.Context) error) error {
	outer, inner, err := e.split(s, false, s.shape(slices.Clone(claims)))
	if err != nil {
		return err
	}
	around, _ := LeaseFrom(ctx)
	return s.moveFrom.doPlain(ctx, slices.Clone(claims), outer, func(ctx context.Context) error {
		return inner.moving(ctx, around, func(ctx context.Context, check func(context.Context) error) error {
			return e.doPlain(ctx, slices.Clone(claims), inner, func(ctx context.Context) error {
				if err := check(ctx); err != nil {
					return err
				}
				return fn(ctx)
			})
		})
	})
}

// onceMoving is Once on both stores.
func (e *Engine) onceMoving(ctx context.Context, key string, fn func(context.Context) ([]byte, error), s *settings) (Outcome, error) {
	outer, inner, err := e.split(s, true, []Claim{Exclusive(key)})
	if err != nil {
		return Outcome{}, err
	}
	around, _ := LeaseFrom(ctx)
	var here Outcome
	ran := false
	out, err := s.moveFrom.onceTold(ctx, key, func(ctx context.Context) ([]byte, error) {
		ran = true
		err := inner.moving(ctx, around, func(ctx context.Context, check func(context.Context) error) (err error) {
			here, err = e.onceTold(ctx, key, func(ctx context.Context) ([]byte, error) {
				if err := check(ctx); err != nil {
					return nil, err
				}
				return fn(ctx)
			}, inner)
			return err
		})
		if err == nil && here.ResultNotKept {
			err = ErrSkipResult
		}
		return here.Result, err
	}, outer)
	if !ran {
		return out, err
	}
	return here, err
}
