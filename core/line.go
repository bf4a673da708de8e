package core

import (
	"context"
	"errors"
	"time"

	"github.com/keyturn/keyturn/core/internal/handoff"
	"github.com/keyturn/keyturn/core/internal/waitline"
)

// wait waits in line. After it, the caller may ask the store, unless another caller gave it
// something. Thousands of callers may be in wait at a time, so it does nothing else: waited
// handles the result.
func (r *request) wait() error {
	if !r.sent.Wait || !r.cov.left() {
		return nil
	}
	ctx := r.ctx
	if ctx == nil || ctx == r.limit { // the line itself ends a wait after the max wait and when the engine closes
		ctx = r.called
	}
	var caller waitline.Caller // that learns why the request waits; nil: none
	if r.engine.hooks != nil {
		caller = r
	}
	return r.engine.lines.Enter(ctx, &r.waiter, caller)
}

// waited handles the end of the wait. An outage that the caller's own deadline ended concerns
// this caller only.
func (r *request) waited(err error) error {
	if err == nil || !r.waiter.Waited {
		return err
	}
	return unlessHurried(r.context(), r.asked, err)
}

// askAtOnce asks for a caller that does not wait for a holder.
func (r *request) askAtOnce() error {
	err := r.askStore()
	if err == nil {
		return nil
	}
	if held := (*HeldError)(nil); errors.As(err, &held) {
		r.Blocked(r.engine.lines.Holder(*held), held.Ahead)
	}
	return err
}

// askInLine asks for a caller that was admitted. It gives up its places together with the
// store's answer.
func (r *request) askInLine() error {
	e := r.engine
	var said waitline.Answer
	defer func() { e.lines.Leave(&r.waiter, said) }()
	if r.waiter.Waited {
		if ctx := r.context(); ctx.Err() != nil { // it was admitted too late
			return unlessHurried(ctx, r.asked, e.lines.Verdict(&r.waiter))
		}
		r.asked = time.Now()
	}
	if r.waiter.Waited || len(r.sent.Claims) > 1 {
		e.lines.Asks(&r.waiter, r.asked)
	}
	r.sent.OnHeld = r.onHeld
	if r.waiter.HeirTTL > 0 {
		r.sent.HandOffs = max(r.sent.HandOffs, handoff.Wanted(r.waiter.Waited))
	}
	err := r.askStore()
	if err == nil {
		r.waiter.Got.Grant.Heritable = r.waiter.HeirTTL > 0
	}
	if rec := r.waiter.Got.Record; rec != nil {
		e.lines.Share(r.sent.Claims[0].Key, rec, r.asked)
	}
	if err == nil || conclusive(r.context(), err) {
		said = waitline.Answer{Err: err, At: r.answer}
	}
	return err
}

// conclusive reports whether the store had time to answer, by the error of a request under ctx.
// Otherwise the line must not learn from err: the next caller may find a healthy store.
func conclusive(ctx context.Context, err error) bool {
	cancelled := errors.Is(err, ErrUnavailable) && errors.Is(ctx.Err(), context.Canceled)
	return !cancelled && !errors.Is(err, waitline.ErrHurried)
}

// heldBy is called on each answer "wait", so that the line and the circuit know that the store is
// alive.
func (r *request) heldBy(held HeldError) {
	r.waits++
	r.engine.backend().circuit.Held(r.ctx, r.sent.Claims, held)
	held = r.engine.lines.HeldBy(&r.waiter, held)
	r.Blocked(held, held.Ahead)
}

// Blocked tells the hooks who is in the way.
func (r *request) Blocked(held HeldError, ahead int) {
	if h := r.engine.hooks; h != nil {
		held.Key = r.engine.ShowKey(held.Key)
		shown := r.shown
		shown.Claims, shown.Attempts = r.engine.showClaims(r.sent.Claims), 0
		h.blocked(r.called, shown, held, ahead)
	}
}
