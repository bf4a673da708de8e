package core

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/handoff"
	"github.com/keyturn/keyturn/core/internal/lazyctx"
	"github.com/keyturn/keyturn/core/observe"
)

// Outcome is the result of [Engine.Once].
type Outcome struct {
	// Duplicate: fn did not run, because the execution is on record.
	Duplicate bool
	// Result is what fn returned; of a duplicate, what it returned the first time.
	Result []byte
	// ResultNotKept: the execution is on record without its result, which was over
	// [WithResultLimit] or found no room at the store. The call that ran fn has the Result all
	// the same. A duplicate has none, and an error that matches ErrResultNotKept.
	ResultNotKept bool
	trace         string // the trace of the recorded execution, for hooks
}

// Once runs fn once per key. While one call runs fn, other calls for the key wait for it, or get
// ErrHeld with [WithFailFast]. After fn has succeeded, they get its result instead of running fn,
// for as long as [WithRetention] says. If fn returns an error or panics, nothing is remembered,
// and the next call runs fn. Calls of one process that wait for the same run share the answer of
// the store; each compares its own fingerprint and gets its own copy.
//
// Looking the record up and taking the lease are one step at the store, and so are storing the record
// and releasing. The record is sent again for as long as the lease is good and a release may take,
// because a lost record means a second run. The effect is on record whatever happens to its result:
// one over the limit, one that fn says not to keep ([ErrSkipResult]), or one that finds no room at the
// store leaves a record without it.
//
// The effect of fn and its record are two steps. A crash between them makes fn run again. If that
// must not happen, mark the key in the transaction that has the effect: fence.WithDatabase is the
// option for that.
//
// Errors besides those of [Engine.Acquire] and fn's own:
//
//   - ErrFingerprintMismatch: the key is on record for other content ([WithFingerprint]). fn did
//     not run.
//   - ErrResultNotKept: fn ran before, and its result was not kept. fn did not run.
//   - ErrLeaseLost: fn ran, another call may have run it too, and nothing was stored.
//   - ErrReleased: fn ran and released the lease itself, so nothing was stored.
//   - ErrOutcomeUnknown: fn ran. It is unknown whether it is on record.
//   - ErrRolledBack: see [WithExecutor]. What fn did is undone; or the lease was lost before fn ran.
//   - ErrWouldDeadlock: ctx holds the key already, as within fn. fn did not run.
//
// The Outcome has fn's result whenever fn succeeded, whatever the error; unless an executor undid it.
func (e *Engine) Once(ctx context.Context, key string, fn func(context.Context) ([]byte, error), opts ...CallOption) (Outcome, error) {
	s, err := e.settingsFor(opts)
	if err != nil {
		return Outcome{}, err
	}
	if err := e.backend().canOnce(s); err != nil {
		return Outcome{}, err
	}
	if fn == nil {
		return Outcome{}, errNoFunction
	}
	return e.onceBy(ctx, key, fn, s)
}

// onceBy is Once with checked settings.
func (e *Engine) onceBy(ctx context.Context, key string, fn func(context.Context) ([]byte, error), s *settings) (Outcome, error) {
	if s.shadow == shadowed {
		return e.onceShadow(ctx, key, fn, s)
	}
	if s.moveFrom != nil {
		return e.onceMoving(ctx, key, fn, s)
	}
	return e.onceTold(ctx, key, fn, s)
}

// onceTold is onceBy on this engine's store alone. It tells the hooks.
func (e *Engine) onceTold(ctx context.Context, key string, fn func(context.Context) ([]byte, error), s *settings) (Outcome, error) {
	if e.hooks == nil {
		return e.once(ctx, key, fn, s)
	}
	x := observe.Execution{Key: e.ShowKey(key), Rule: s.rule, Store: e.backend().about.Name, Shadow: s.shadow != notShadow}
	ctx = e.hooks.onceStart(ctx, x)
	var out Outcome
	err := observe.ErrPanicked // unless fn returns
	defer func() { e.hooks.onceEnd(ctx, x, out, err) }()
	out, err = e.once(ctx, key, fn, s)
	return out, err
}

// ErrSkipResult, returned by a function of [Engine.Once], says that the function succeeded and
// that its result is not to be kept, for example because it was streamed. The execution is on
// record, and repeats get ErrResultNotKept. Only this very value has that meaning, not an error
// that wraps it. Once never returns it.
var ErrSkipResult = errors.New("keyturn: skip the result")

func (e *Engine) once(ctx context.Context, key string, fn func(context.Context) ([]byte, error), shared *settings) (Outcome, error) {
	own := *shared
	own.once = true
	s := &own
	claims := []Claim{Exclusive(key)}
	lease, rec, err := e.acquire(ctx, claims, s)
	switch {
	case err != nil && mayRunUnlocked(ctx, s, err):
		e.runsUnlocked(ctx, claims, s, err)
		done, err := e.perform(ctx, key, fn, s)
		switch {
		case err != nil:
			return Outcome{}, err
		case s.executor == nil:
			return Outcome{Result: done.result}, nil // nobody has a record
		}
		return done.outcome(e.ShowKey(key), s)
	case err != nil:
		return Outcome{}, err
	case rec != nil:
		return replay(e.ShowKey(key), rec, s)
	}
	var done performed
	lease.run(ctx, func(ctx context.Context) { done, err = e.perform(ctx, key, fn, s) })
	switch {
	case done.failed != nil:
		return Outcome{}, lease.done(ctx, err)
	case err != nil:
		_ = lease.done(ctx, nil)
		return Outcome{}, err
	}
	if s.executor != nil {
		if kept := done.rec; e.backend().about.Ledger { // a copy: the store may have no room for the result
			_ = e.complete(ctx, lease, s, &kept)
		} else {
			_ = lease.Release(ctx)
		}
		return done.outcome(e.ShowKey(key), s)
	}
	err = e.complete(ctx, lease, s, &done.rec)
	return Outcome{Result: done.result, ResultNotKept: err == nil && done.rec.ResultNotKept}, err
}

// dropResult turns r into a record without a result. The effect stays on record; otherwise a
// repeat would have the effect again.
func dropResult(r *driver.Record) { r.Result, r.ResultNotKept = nil, true }

// replay answers from the record of key, which is for the error's text. Fingerprints are compared only
// if both sides have one, because the record may be older than the rule's fingerprint.
func replay(key string, rec *driver.Record, s *settings) (Outcome, error) {
	if !s.anyContent && len(s.fingerprint) > 0 && len(rec.Fingerprint) > 0 && !bytes.Equal(s.fingerprint, rec.Fingerprint) {
		return Outcome{}, fmt.Errorf("%w: %q", ErrFingerprintMismatch, key)
	}
	if rec.ResultNotKept {
		return Outcome{Duplicate: true, ResultNotKept: true, trace: rec.Trace}, &driver.ResultNotKeptError{Key: key}
	}
	return Outcome{Duplicate: true, Result: rec.Result, trace: rec.Trace}, nil
}

// complete records the result and releases the lease. It tries again for as long as the lease
// is good and a release may take, because a lost record means that fn runs twice. If the store
// had no room for rec's result, rec loses it. A record that an executor has, too, is worth one try.
func (e *Engine) complete(ctx context.Context, lease *Lease, s *settings, rec *driver.Record) error {
	bound := releaseBound{ctx: lazyctx.Detached(ctx, max(min(e.cfg.releaseTimeout, time.Until(lease.Deadline())), 1))}
	defer bound.cancel()
	recorded := false
	err := lease.endAtStore(&bound, opComplete, func(ctx context.Context, g handoff.Grant) error {
		err := e.completeUntilAnswered(ctx, lease, g, s, rec)
		recorded = err == nil
		return err
	})
	if err == nil && !recorded {
		return releasedBy(e.ShowKey(lease.Key()))
	}
	return err
}

// releasedBy is the error of an execution whose own function released the lease.
func releasedBy(key string) error {
	return fmt.Errorf("keyturn: nothing was stored for %q, because its function released the lease: %w", key, ErrReleased)
}

// completePause is the first pause between two tries. Each pause is twice as long as the one
// before.
const completePause = 10 * time.Millisecond

// completeUntilAnswered tries until the store answers or ctx ends; with an executor once.
func (e *Engine) completeUntilAnswered(ctx context.Context, lease *Lease, g handoff.Grant, s *settings, rec *driver.Record) error {
	for pause := completePause; ; pause *= 2 {
		err := e.askComplete(ctx, lease, g, rec, s.retention)
		if answers(err) {
			return err
		}
		if s.executor != nil {
			e.debts.owe(ctx, g, lease.terms.rule, true)
			return err
		}
		select {
		case <-ctx.Done():
			e.debts.owe(ctx, g, lease.terms.rule, true) // without a record the key need not stay locked
			return err
		case <-time.After(pause):
		}
	}
}

// askComplete asks the store once. Callers that wait for the same execution get the record.
func (e *Engine) askComplete(ctx context.Context, lease *Lease, g handoff.Grant, rec *driver.Record, retention time.Duration) error {
	asked := time.Now()
	err := e.backend().store.Complete(ctx, g.Grant, *rec, retention)
	if errors.Is(err, ErrResultNotKept) {
		dropResult(rec)
		err = nil
	}
	e.backend().circuit.Learn(lease.grant.Claims, err)
	e.storeCalled("complete", asked, err)
	if err == nil {
		e.lines.Share(lease.Key(), rec, asked)
	}
	return err
}
