package core

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// Lease is a granted claim set. It belongs to one acquisition, is safe for
// concurrent use, and must be released exactly when the work is done;
// releasing it again is harmless.
type Lease struct {
	engine   *Engine
	grant    Grant
	settings settings
	granted  time.Time
	outer    *Lease   // the lease that this one was acquired under; may be nil
	deadline deadline // guarded by the watchdog's mutex

	ctx    context.Context
	cancel context.CancelCauseFunc

	release struct {
		turn        chan struct{} // one at a time; later ones get its answer
		begun, over bool          // begun: out of the watchdog; over: err is final
		err         error
	}
	ended atomic.Bool // the observer knows
}

type leaseKey struct{}

// leaseContext puts the lease where the handler finds it.
type leaseContext struct {
	context.Context
	lease *Lease
}

func (c leaseContext) Value(key any) any {
	if key == (leaseKey{}) {
		return c.lease
	}
	return c.Context.Value(key)
}

// LeaseFrom returns the innermost lease that ctx descends from; for a handler
// behind a middleware, which did not acquire it itself.
func LeaseFrom(ctx context.Context) (*Lease, bool) {
	l, ok := ctx.Value(leaseKey{}).(*Lease)
	return l, ok
}

// Context descends from the context of the acquisition and ends with the
// lease. context.Cause then tells why: ErrReleased, an error that matches
// ErrLeaseLost, or the parent's. It ends before the backend lets the next one
// in, by a margin; what must not overlap at all needs the token as well.
func (l *Lease) Context() context.Context { return l.ctx }

// Token is the fencing token: greater than that of every earlier lease of the
// same keys. A resource that refuses smaller tokens than it has seen is safe
// from holders that were paused past their lease.
func (l *Lease) Token() uint64 { return l.grant.Token }

// Owner is the value stored for this lease; see [ParseOwner].
func (l *Lease) Owner() string { return l.grant.Owner }

// Claims returns what is held, in key order. Not to be changed.
func (l *Lease) Claims() []Claim { return l.grant.Claims }

// Key returns the first claim's key, which for most leases is the only one.
func (l *Lease) Key() string { return l.grant.Claims[0].Key }

// Rule is the name given with [WithRule].
func (l *Lease) Rule() string { return l.settings.rule }

// TTL is how long the backend keeps the lease after a renewal.
func (l *Lease) TTL() time.Duration { return l.grant.TTL }

// Deadline is when the lease counts as lost unless a renewal comes through.
func (l *Lease) Deadline() time.Time { return l.engine.watchdog.deadlineOf(l) }

// Err returns nil while the lease is in force, an error that matches
// ErrLeaseLost once it is lost, and ErrReleased after a release. It looks at
// the clock itself, so it is right also where the watchdog has had no time to
// run, as after a pause of the process.
func (l *Lease) Err() error {
	err := l.engine.watchdog.check(l)
	if errors.Is(err, ErrLeaseLost) { // how a release ends is for the release to say
		l.end(err)
	}
	return err
}

// Release ends the lease, its context first, and lets the next one in. It is
// idempotent and goes on when ctx is cancelled, for at most the time that
// [WithReleaseTimeout] sets: a lock must not stay behind because a client hung
// up.
//
// The error matches ErrLeaseLost when the lease had ended before, so that
// somebody else may have held the key meanwhile; or ErrOutcomeUnknown when the
// store did not answer: the key is then free after the TTL at the latest, and
// Release may be called again.
func (l *Lease) Release(ctx context.Context) error {
	ctx, cancel := l.engine.detached(ctx)
	defer cancel()
	return l.giveBack(ctx)
}

// giveBack is Release within ctx.
func (l *Lease) giveBack(ctx context.Context) error {
	return l.finish(ctx, "release", func(ctx context.Context) error {
		return l.engine.store.Release(ctx, l.grant)
	})
}

// run calls fn under the lease. Should fn not return, but panic or end its
// goroutine, the lease is released.
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

// done releases the lease and adds a loss to what its work came to. Whether the
// release was answered makes no difference to the work.
func (l *Lease) done(ctx context.Context, err error) error {
	if lost := l.Release(ctx); errors.Is(lost, ErrLeaseLost) {
		return errors.Join(lost, err)
	}
	return err
}

// finish takes the lease out of the watchdog and has settle tell the store.
// The order matters: a renewal after the release would be an error at best. ctx
// is the caller's bound for all of it, also for waiting until another is done.
func (l *Lease) finish(ctx context.Context, op string, settle func(context.Context) error) error {
	if !l.takeTurn(ctx) {
		return &outcomeUnknownError{op: op, key: l.Key(), err: ctx.Err()}
	}
	defer func() { <-l.release.turn }()
	if l.release.over {
		return l.release.err
	}
	again := l.release.begun
	if !again {
		l.release.begun = true
		defer l.engine.forget(l)
		if err := l.engine.watchdog.remove(l); err != nil {
			_ = l.conclude(err) // the context first, here too
			l.abandon(ctx, err)
			return err
		}
		l.cancel(ErrReleased)
	}
	err := settle(ctx)
	switch {
	case err == nil:
		return l.conclude(nil)
	case errors.Is(err, ErrLeaseLost) && again:
		// An earlier attempt went unanswered: that one must have ended it.
		return l.conclude(nil)
	case errors.Is(err, ErrLeaseLost):
		lost := l.lossError(LossTaken)
		l.engine.watchdog.correct(l, lost)
		return l.conclude(lost)
	default:
		err = &outcomeUnknownError{op: op, key: l.Key(), err: err}
		l.end(err)
		return err
	}
}

// takeTurn waits while another one releases. It is no mutex because the wait
// has a bound.
func (l *Lease) takeTurn(ctx context.Context) bool {
	select {
	case l.release.turn <- struct{}{}:
		return true
	default: // or ctx's end might be seen first, and Close wait for ever for this lease
	}
	select {
	case l.release.turn <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// abandon frees a lease that is over for its holder while the backend may
// still count it as held, now rather than at the end of its TTL. The outcome
// no longer matters to anybody: the backend's clock settles it.
func (l *Lease) abandon(ctx context.Context, err error) {
	var lost *LeaseLostError
	if errors.As(err, &lost) && (lost.Reason == LossMaxHold || lost.Reason == LossClosed) {
		_ = l.engine.store.Release(ctx, l.grant)
	}
}

// conclude makes err the last word about this lease.
func (l *Lease) conclude(err error) error {
	l.release.over, l.release.err = true, err
	l.end(err)
	l.cancel(err) // a context kept alive through a loss ends here
	return err
}

// end tells the context and, once, the observer how the lease ended.
func (l *Lease) end(err error) {
	if errors.Is(err, ErrLeaseLost) && !l.settings.keepContext {
		l.cancel(err)
	}
	if l.ended.Swap(true) {
		return
	}
	if err == nil {
		l.engine.holds.add(l.grant.Claims, time.Since(l.granted))
	}
	if o := l.engine.observer; o != nil {
		o.HoldEnd(l.ctx, l, err)
	}
}

func (l *Lease) lossError(reason LossReason) *LeaseLostError {
	return &LeaseLostError{Key: l.Key(), Token: l.grant.Token, Reason: reason}
}

// outcomeUnknownError keeps what the store said.
type outcomeUnknownError struct {
	op, key string
	err     error
}

func (e *outcomeUnknownError) Error() string {
	return "keyturn: " + e.op + " of " + e.key + ": outcome unknown: " + e.err.Error()
}

func (e *outcomeUnknownError) Is(target error) bool { return target == ErrOutcomeUnknown }

func (e *outcomeUnknownError) Unwrap() error { return hideContext(e.err) }
