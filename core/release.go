package core

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/handoff"
	"github.com/keyturn/keyturn/core/internal/lazyctx"
)

// Release ends the lease, its context first, and admits the next holder. It goes on if ctx is
// cancelled, for at most [WithReleaseTimeout]: a lock must not stay because a client hung up. It
// is idempotent.
//
// The error matches ErrLeaseLost if the lease had ended before, so that somebody else may have
// held the key meanwhile. It matches ErrOutcomeUnknown if the store did not answer within
// [WithReleaseTimeout], or only after the lease had run out. Then the engine logs that
// ([WithLogger]), tells the hooks (observe.Hooks.Owed), and sends the release again until the
// store answers or the lease has run out. The caller need not do anything. It may call Release
// again to learn whether the store has answered.
//
// The release of a nested lease only counts: the key is free when the outermost lease is
// released, which must come last. The store is not told of it, nor of the release of a lease
// that is borrowed from another process (core/experimental/carry).
func (l *Lease) Release(ctx context.Context) error {
	err := l.free(ctx)
	if l.releasedEarly() {
		l.endEarly()
	}
	return err
}

// free is Release, but leaves the context of a lease that is released early.
func (l *Lease) free(ctx context.Context) error {
	if l.nest != nil {
		return l.releaseNested(ctx)
	}
	bound := releaseBound{engine: l.engine, caller: ctx}
	defer bound.cancel()
	return l.endAtStore(&bound, opRelease, func(ctx context.Context, g handoff.Grant) error {
		if l.borrowed != nil {
			return nil
		}
		return l.engine.storeRelease(ctx, g, l.terms.rule)
	})
}

// releaseBound bounds the time of a release by a context. The context is made only if something
// may have to wait. A lease that is handed on needs none.
type releaseBound struct {
	engine *Engine
	caller context.Context
	ctx    *lazyctx.Context // nil: not made yet
}

func (b *releaseBound) context() context.Context {
	if b.ctx == nil {
		b.ctx = lazyctx.Detached(b.caller, b.engine.cfg.releaseTimeout)
	}
	return b.ctx
}

func (b *releaseBound) cancel() {
	if b.ctx != nil {
		b.ctx.Cancel()
	}
}

// storeRelease asks the store to release. If the store does not answer, the release is a debt.
func (e *Engine) storeRelease(ctx context.Context, grant handoff.Grant, rule string) error {
	err := e.askRelease(ctx, grant)
	if answers(err) {
		e.debts.strike(grant)
	} else if d := e.debts.add(grant, rule); d != nil {
		e.debts.failed(ctx, d, err)
	}
	return err
}

// askRelease asks the store once.
func (e *Engine) askRelease(ctx context.Context, grant handoff.Grant) error {
	var asked time.Time
	if e.hooks != nil { // only hooks need the time
		asked = time.Now()
	}
	err := e.backend().store.Release(ctx, e.releaseRequest(grant))
	e.backend().circuit.Learn(grant.Claims, err)
	e.storeCalled("release", asked, err)
	return err
}

// run calls fn under the lease. If fn panics or ends its goroutine, the lease is released.
func (l *Lease) run(ctx context.Context, fn func(context.Context)) {
	returned := false
	defer func() {
		if !returned {
			_ = l.Release(ctx)
		}
	}()
	fn(l.ctx)
	returned = true
}

// done releases the lease and adds a loss to the error of its work. An unanswered release makes
// no difference to the work.
func (l *Lease) done(ctx context.Context, err error) error {
	if l.releasedEarly() && l.owesRelease() {
		l.endEarly()
		return err
	}
	if lost := l.Release(ctx); errors.Is(lost, ErrLeaseLost) {
		return errors.Join(lost, err)
	}
	return err
}

// owesRelease reports whether the store did not answer a release, which the engine goes on sending.
func (l *Lease) owesRelease() bool {
	if l.nest != nil {
		return slices.ContainsFunc(l.nest.owned, (*Lease).owesRelease)
	}
	if !l.release.tryLock() {
		return false
	}
	defer l.release.unlock()
	return l.release.begun && !l.release.concluded
}

// releaseOp is a request that ends a lease at the store.
type releaseOp string

const (
	opRelease  releaseOp = "release"
	opComplete releaseOp = "complete" // it also records the execution of Once; a lost lease records nothing
)

// endAtStore takes the lease out of the watchdog and calls send, which asks the store, with the
// present grant. The order matters: a renewal after the release would be an error at best. The
// bound covers all of it, including the wait for another release of the lease.
func (l *Lease) endAtStore(bound *releaseBound, op releaseOp, send func(context.Context, handoff.Grant) error) error {
	if !l.release.tryLock() && !l.release.lock(bound.context()) {
		return &outcomeUnknownError{op: op, key: l.engine.ShowKey(l.Key()), err: bound.context().Err()}
	}
	defer l.release.unlock()
	if l.release.concluded {
		return l.release.err
	}
	repeated := l.release.begun
	var g handoff.Grant
	if repeated {
		g = l.current()
	} else {
		defer l.register.forget(l) // at the end, because Close waits for the store's answer
		g = l.beginRelease(bound, op)
		if l.release.concluded {
			return l.release.err
		}
	}
	return l.releaseOutcome(op, repeated, send(bound.context(), g))
}

// beginRelease takes the lease out of the watchdog and returns its present grant. The release is
// concluded at once if the lease had been lost before, goes to the next caller in line, or lingers.
func (l *Lease) beginRelease(bound *releaseBound, op releaseOp) handoff.Grant {
	l.release.begun = true
	g := l.grant
	rest, err := l.watch.Release(ErrReleased)
	if err != nil {
		l.abandon(err, bound)
		return g
	}
	l.finished.signal()
	if !l.releasedEarly() {
		l.cancel(ErrReleased)
	}
	g.Grant, g.Longest, g.Heard = rest.Grant, rest.Longest, rest.Heard
	switch {
	case !rest.Unchanged || op != opRelease:
	case g.Heritable && l.engine.handOn(bound, g):
		l.release.handedOn = true
		_ = l.conclude(nil)
	case l.linger(g, rest.At):
		_ = l.conclude(nil)
	}
	return g
}

// releaseOutcome returns the holder's error for the store's answer to op. repeated says that an
// earlier request for it was not answered.
func (l *Lease) releaseOutcome(op releaseOp, repeated bool, err error) error {
	switch {
	case err == nil:
		return l.conclude(nil)
	case errors.Is(err, ErrLeaseLost) && repeated: // the earlier request must have ended the lease
		return l.conclude(nil)
	case errors.Is(err, ErrLeaseLost):
		lost := l.taken(err)
		if op == opRelease && lost.Reason == driver.LossTaken && time.Now().After(l.Deadline()) {
			return l.conclude(&outcomeUnknownError{op: op, key: l.engine.ShowKey(l.Key()), err: errAnsweredLate})
		}
		l.watch.Correct(lost)
		return l.conclude(lost)
	default:
		err = &outcomeUnknownError{op: op, key: l.engine.ShowKey(l.Key()), err: l.engine.showOutage(err)}
		l.end(err)
		return err
	}
}

// revoke ends a lost lease whose holder has not released it. What it owes the store is a debt. A
// release that is under way goes on.
func (l *Lease) revoke() {
	if !l.release.tryLock() {
		return
	}
	defer l.release.unlock()
	if !l.release.begun {
		l.release.begun = true
		defer l.register.forget(l)
		l.abandon(l.watch.Err(), nil)
	}
}

// errAnsweredLate: the lease was in force when the release was sent, and had run out when the
// store carried it out. "Not yours" then has two possible causes: somebody took the lease, or
// it ended after its work was done. To report a loss would be a false alarm, after which
// finished work is repeated.
var errAnsweredLate = errors.New("the answer came after the lease had run out")

// abandon frees a lease that was lost before its release, because of err, although the backend may
// still count it as held, or a part of it. It frees it now rather than at the end of its TTL. Nobody depends on the
// result: the backend's clock decides. A lease that ended because the store did not answer becomes a
// debt: a renewal that was under way may arrive when the network is back, and would lock the key for
// another TTL. bound is that of the caller that waits; nil: none does.
func (l *Lease) abandon(err error, bound *releaseBound) {
	_ = l.conclude(err)
	l.cancel(err) // first, also for a context that survived the loss
	var lost *LeaseLostError
	if !errors.As(err, &lost) || l.borrowed != nil {
		return
	}
	switch {
	case lost.Reason == driver.LossMaxHold && bound != nil:
		_ = l.engine.storeRelease(bound.context(), l.current(), l.terms.rule)
	case lost.Reason == driver.LossMaxHold, lost.Reason == driver.LossClosed, lost.Reason == driver.LossExpired, lost.Reason == driver.LossSuspended,
		len(l.grant.Claims) > 1: // of a set, one claim may be lost, and the store has the others
		l.engine.debts.owe(l.ctx, l.current(), l.terms.rule, true)
	}
}

// conclude makes err the final result of this lease.
func (l *Lease) conclude(err error) error {
	l.release.concluded, l.release.err = true, err
	l.end(err)
	return err
}

// outcomeUnknownError wraps the store's error.
type outcomeUnknownError struct {
	op  releaseOp
	key string
	err error
}

func (e *outcomeUnknownError) Error() string {
	return "keyturn: " + string(e.op) + " of " + e.key + ": outcome unknown: " + e.err.Error()
}

func (e *outcomeUnknownError) Is(target error) bool { return target == ErrOutcomeUnknown }

func (e *outcomeUnknownError) Unwrap() error { return (&UnavailableError{Err: e.err}).Unwrap() }
