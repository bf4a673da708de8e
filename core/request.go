package core

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/handoff"
	"github.com/keyturn/keyturn/core/internal/lazyctx"
	"github.com/keyturn/keyturn/core/internal/waitline"
	"github.com/keyturn/keyturn/core/observe"
)

// request is one acquisition on its way through the line to the store. What it needs on
// the way is in it, so that an acquisition of one key does not allocate each for itself,
// and does not have it on its stack while it waits. Requests are used again.
type request struct {
	engine   *Engine
	register *register
	parent   context.Context // the caller's, with what was borrowed: the lease's descends from it
	cov      *cover          // what the caller's context holds of the claims; nil: nothing
	observed bool            // the hooks were told of the beginning

	ctx    context.Context
	limit  *lazyctx.Context // what ctx is, or descends from. Not used again: a store may keep it
	asked  time.Time
	answer time.Time // when the store's last one came; zero: it was not asked
	sent   driver.Request

	attempts int // as in Acquisition
	waits    int // how often the store said that it has to wait

	waiter waitline.Waiter // what came of the request is in its Got
	onHeld func(HeldError) // is told
}

// requests are those that no acquisition uses. A request is the greater part of the memory
// that a short lease needs, and the garbage collector's work grows with that.
var requests = sync.Pool{New: func() any {
	r := new(request)
	r.onHeld = r.told
	return r
}}

// free keeps r, which nobody uses any more, for another acquisition.
func (r *request) free() {
	*r = request{onHeld: r.onHeld}
	requests.Put(r)
}

// failFastTime is for how long a store that says nothing is waited for by those
// who do not wait for a holder.
const failFastTime = 5 * time.Second

// patience is for how long a call waits: for a holder and the store, or for the store
// alone. 0: no bound.
func (s *settings) patience() time.Duration {
	if s.failFast && (s.maxWait == 0 || s.maxWait > failFastTime) {
		return failFastTime
	}
	return s.maxWait
}

// begin does all that comes before the wait. The request's context is the one that a
// hook put something into.
func (r *request) begin(s *settings) error {
	e, ctx := r.engine, r.parent
	if e.hooks != nil {
		ctx = e.hooks.acquireStart(ctx, e.acquisition(r.wanted(), s))
		r.observed = true
	}
	r.asked = time.Now()
	r.limit = lazyctx.Bounded(ctx, e.life.ending, s.patience())
	r.ctx = r.limit
	r.waiter.Since, r.waiter.MaxWait = r.asked, s.patience()
	if own := ctx.Err(); own != nil { // no request for somebody who has gone
		return own
	}
	if r.cov != nil {
		if err := r.borrow(s); err != nil || !r.cov.left() {
			return err
		}
		r.sent.Claims = r.cov.rest
	}
	r.prepare(s)
	if r.sent.Wait {
		return e.circuit.Refuses(r.sent.Claims) // now, not behind the one who tries the store
	}
	return nil
}

// borrow takes what it can from leases that the context carries.
func (r *request) borrow(s *settings) (err error) {
	r.limit.Start(r.asked) // what asks the store for them would start it later
	if r.cov.refused != nil {
		return r.cov.refused
	}
	r.parent, err = r.engine.borrow(r.ctx, r.parent, r.cov, s)
	if err == nil && len(r.cov.owned) > 0 { // nobody waits on for what is lost
		ctx, cancel := context.WithCancel(r.ctx)
		stop := context.AfterFunc(r.parent, cancel)
		r.ctx, r.cov.unwatch = ctx, func() { stop(); cancel() }
	}
	return err
}

// finish does all that comes after the wait: it asks the store, unless another caller
// of this process gave it what it has, and makes the grant a lease.
func (r *request) finish(s *settings, ask ask) (lease *Lease, rec *driver.Record, err error) {
	e, cov, got := r.engine, r.cov, &r.waiter.Got
	switch {
	case !cov.left():
		return e.nested(r.parent, cov, nil, s), nil, nil
	case !got.Nothing():
	case r.sent.Wait:
		err = r.askInLine(ask)
	default:
		err = r.askAtOnce(ask)
	}
	if err != nil || got.Record != nil {
		return nil, got.Record, err
	}
	lease, err = e.lease(r.parent, &got.Grant, r.answer, s, nil)
	if err == nil && cov != nil && len(cov.by) > 0 {
		lease = e.nested(lease.ctx, cov, lease, s)
	}
	return lease, nil, err
}

// end tidies up, also after a panic of the store, tells the hooks, and returns the error for
// the caller. A grant that came to no lease is given back.
func (r *request) end(lease *Lease, s *settings, err error) error {
	e := r.engine
	defer r.register.leave()
	if r.limit == nil { // a hook ended the goroutine
		return err
	}
	r.limit.Cancel()
	if r.cov != nil && r.cov.unwatch != nil {
		r.cov.unwatch()
	}
	if lease == nil {
		if g := r.waiter.Got.Grant; g.Owner != "" {
			e.giveBackGrant(r.limit.Parent(), g, s.rule)
		}
		if r.cov != nil {
			err = e.giveUp(r.limit.Parent(), r.cov, err)
		}
	}
	if err != nil && err != observe.ErrPanicked {
		err = e.refusal(r.limit.Parent(), r.wanted(), s, err, time.Since(r.waiter.Since))
	}
	if r.observed {
		a := e.acquisition(r.wanted(), s)
		a.Attempts = r.attempts
		e.hooks.acquireEnd(r.limit.Parent(), a, lease, err)
	}
	return err
}

// wanted is all that was asked for.
func (r *request) wanted() []Claim {
	if r.cov != nil {
		return r.cov.wanted
	}
	return r.sent.Claims
}

// prepare says what the store will be asked for, and what the line has to know.
func (r *request) prepare(s *settings) {
	e, claims := r.engine, r.sent.Claims
	r.sent = driver.Request{Claims: claims, TTL: e.ttl(s), Wait: !s.failFast, Rule: s.rule, Trace: e.hooks.trace(r.ctx)}
	w := &r.waiter
	w.Once, w.Trace = s.once, r.sent.Trace
	w.Want(claims)
	if s.heritable(claims) {
		w.HeirTTL = r.sent.TTL
	}
}

// askStore asks, and notes in the waiter's Got what came of it.
func (r *request) askStore(ask ask) error {
	r.sent.Owner = r.engine.owners.next() // who is handed a lease needs none
	if r.engine.debts.n.Load() > 0 {
		ask = r.afterDebts(ask)
	}
	grant, rec, answered, err := r.engine.circuit.Ask(r.ctx, r.asked, r.sent, ask)
	r.answer = answered
	r.attempts = r.waits
	if r.waits == 0 && !errors.Is(err, ErrCircuitOpen) || err == nil {
		r.attempts++
	}
	if grant.Since.IsZero() {
		grant.Since = r.asked
	}
	r.waiter.Got = waitline.Got{Record: rec, Grant: handoff.Grant{Grant: grant, Heard: answered}}
	r.engine.storeCalled("acquire", r.asked, err)
	if err != nil {
		err = unlessHurried(r.ctx, r.asked, err)
	}
	return err
}

// errOwed: the store may hold the key for this process, which has released it.
var errOwed = errors.New("an earlier release of the key is still unanswered")

// afterDebts is ask once the engine owes the store no release of the claims. A caller that
// does not wait must not be told that the key is held, as nobody holds it. A caller that
// waits joins the queue, and the release lets it in when the store answers.
func (r *request) afterDebts(ask ask) ask {
	return func(ctx context.Context, req driver.Request) (driver.Grant, *driver.Record, error) {
		if !r.engine.debts.settle(ctx, req.Claims) && !req.Wait {
			return driver.Grant{}, nil, &UnavailableError{Op: "acquire", Err: errOwed}
		}
		r.asked = time.Now() // the lease counts from the request for it
		return ask(ctx, req)
	}
}
