package core

import (
	"context"
	"sync"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/circuit"
	"github.com/keyturn/keyturn/core/internal/handoff"
	"github.com/keyturn/keyturn/core/internal/lazyctx"
	"github.com/keyturn/keyturn/core/internal/waitline"
	"github.com/keyturn/keyturn/core/observe"
)

// request is one acquisition on its way through the line to the store. It holds everything that
// the acquisition needs on the way. So an acquisition of one key does not allocate each part,
// nor have it on its stack while it waits. Requests are reused.
type request struct {
	engine *Engine
	parent context.Context     // the caller's context, with what was borrowed; the lease's descends from it
	cov    *cover              // the claims that the caller's context already holds; nil: none
	shown  observe.Acquisition // for hooks; zero without hooks

	called context.Context  // the parent, or what the hooks made of it; nil: a hook did not return
	ctx    context.Context  // what bounds the request to the store; nil: not made yet
	limit  *lazyctx.Context // ctx, or what ctx descends from; not reused, because a store may keep it
	asked  time.Time
	answer time.Time // when the store's last answer came; zero: it was not asked
	sent   driver.Request
	waits  int // how often the store answered "wait"

	waiter waitline.Waiter // its Got has the result of the request
	onHeld func(HeldError) // the method heldBy
	send   circuit.Ask     // the method sendNow
}

// requests are the requests that no acquisition uses. A request is most of the memory of a
// short lease, and the garbage collector's work grows with it.
var requests = sync.Pool{New: func() any {
	r := new(request)
	r.onHeld, r.send = r.heldBy, r.sendNow
	return r
}}

// free puts r back into the pool. Nobody may use r after that.
func (r *request) free() {
	*r = request{onHeld: r.onHeld, send: r.send}
	requests.Put(r)
}

// begin does everything before the wait.
func (r *request) begin(s *settings) error {
	e, called := r.engine, r.parent
	if e.hooks != nil {
		r.shown = e.acquisition(r.wanted(), s)
		called = e.hooks.acquireStart(called, r.shown)
	}
	r.called, r.asked = called, time.Now()
	r.waiter.Since, r.waiter.MaxWait = r.asked, s.patience()
	if own := called.Err(); own != nil { // the caller has gone
		return own
	}
	if r.cov != nil {
		if err := r.borrow(s); err != nil || !r.cov.left() { // nothing is sent
			return err
		}
		r.sent.Claims = r.cov.rest
	}
	r.prepare(s)
	if r.sent.Wait {
		return e.backend().circuit.Refuses(r.sent.Claims) // now, and not behind the caller that tries the store
	}
	return nil
}

// context returns the context that bounds the request to the store. A caller that is handed a lease
// needs none.
func (r *request) context() context.Context {
	if r.ctx == nil {
		r.limit = lazyctx.Bounded(r.called, r.engine.life.ending, r.waiter.MaxWait)
		r.ctx = r.limit
	}
	if r.waiter.Waited {
		r.limit.Start(r.waiter.Since) // the line itself does not use the timeout
	}
	return r.ctx
}

// borrow takes what it can from leases that the context carries.
func (r *request) borrow(s *settings) (err error) {
	switch {
	case r.cov.refused != nil:
		return r.engine.showError(r.cov.refused)
	case !r.cov.left():
		return nil
	}
	ctx := r.context()
	r.limit.Start(r.asked) // asking the store for them would start it later
	r.parent, err = r.engine.borrow(ctx, r.parent, r.cov, s)
	if err == nil && len(r.cov.owned) > 0 { // the wait ends if one of them is lost
		ctx, cancel := context.WithCancel(ctx)
		stop := context.AfterFunc(r.parent, cancel)
		r.ctx, r.cov.unwatch = ctx, func() { stop(); cancel() }
	}
	return err
}

// obtain does everything after the wait. It asks the store, unless another caller of this
// process gave the request a lease or a record, and makes a lease of the grant.
func (r *request) obtain(s *settings) (lease *Lease, rec *driver.Record, err error) {
	e, cov, got := r.engine, r.cov, &r.waiter.Got
	switch {
	case !cov.left():
		return e.nested(r.parent, cov, nil, s), nil, nil
	case !got.Nothing():
	case r.sent.Wait:
		err = r.askInLine()
	default:
		err = r.askAtOnce()
	}
	if err != nil || got.Record != nil {
		return nil, got.Record, err
	}
	lease, err = e.newLease(r.parent, &got.Grant, r.answer, s, nil)
	if err == nil && cov != nil && len(cov.holders) > 0 {
		lease = e.nested(lease.ctx, cov, lease, s)
	}
	return lease, nil, err
}

// cleanUp cleans up, also after a panic of the store, tells the hooks, and returns the caller's
// error. A grant that did not become a lease is given back.
func (r *request) cleanUp(lease *Lease, s *settings, err error) error {
	e := r.engine
	if r.called == nil { // a hook ended the goroutine
		return err
	}
	if r.limit != nil {
		r.limit.Cancel()
	}
	if r.cov != nil && r.cov.unwatch != nil {
		r.cov.unwatch()
	}
	if lease == nil {
		if g := r.waiter.Got.Grant; g.Owner != "" {
			e.giveBackGrant(r.called, g, s.rule)
		}
		if r.cov != nil {
			err = e.releaseBorrowed(r.called, r.cov, err)
		}
	}
	if err != nil && err != observe.ErrPanicked {
		err = e.refusal(r.called, r.wanted(), s, err, time.Since(r.waiter.Since))
	}
	if e.hooks != nil {
		e.hooks.acquireEnd(r.called, r.shown, lease, err)
	}
	return err
}

// wanted returns all requested claims.
func (r *request) wanted() []Claim {
	if r.cov != nil {
		return r.cov.wanted
	}
	return r.sent.Claims
}

// prepare sets what the store will be asked for, and what the line has to know.
func (r *request) prepare(s *settings) {
	e, claims := r.engine, r.sent.Claims
	r.sent = driver.Request{Claims: claims, TTL: e.ttl(s), Wait: !s.failFast, Rule: note(s.rule), Trace: e.hooks.trace(r.called)}
	w := &r.waiter
	w.Once, w.Trace = s.once, r.sent.Trace
	w.Want(claims)
	if s.heritable(claims) {
		w.HeirTTL = r.sent.TTL
		if s.linger > 0 {
			r.sent.Linger, r.sent.HandOffs = true, handoff.MaxHandOffs
		}
	}
}
