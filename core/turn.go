package core

import (
	"context"
	"errors"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// turn is an acquisition on its way through the lines to the store. What it needs on
// the way is in it, so that an acquisition of one key does not allocate each for
// itself, and does not have it on its stack while it waits.
type turn struct {
	engine   *Engine
	parent   context.Context // the caller's, with what was borrowed: the lease's descends from it
	cov      *cover          // what the caller's context holds of the claims; nil: nothing
	observed bool            // the hooks were told of the beginning

	ctx     context.Context
	bound   bound // what ctx is, or descends from
	began   time.Time
	asked   time.Time
	answer  time.Time // when the store's last one came; zero: it was not asked
	req     driver.Request
	waited  bool // in line
	handsOn bool // its grant may go to the next in line, and it may get another's

	attempts int // as in Acquisition
	waits    int // how often the store said that it has to wait

	places places
	ticket ticket // the only place's; what came of the turn is in its given
	only   [1]*ticket
}

// failFastTime is for how long a store that says nothing is waited for by those
// who do not wait for a holder.
const failFastTime = 5 * time.Second

// bind has b end with ctx, with the maximum wait, and when the engine closes.
func (e *Engine) bind(b *bound, ctx context.Context, s *settings) {
	b.values, b.parent, b.ending, b.timeout = ctx, ctx, e.life.ending, s.maxWait
	if s.failFast && (s.maxWait == 0 || s.maxWait > failFastTime) {
		b.timeout = failFastTime
	}
}

// begin does all that comes before the wait. The turn's context is the one that a
// hook put something into.
func (t *turn) begin(s *settings) error {
	e, ctx := t.engine, t.parent
	if e.hooks != nil {
		ctx = e.hooks.acquireStart(ctx, e.acquisition(t.wanted(), s))
		t.observed = true
	}
	t.began = time.Now()
	t.asked = t.began
	e.bind(&t.bound, ctx, s)
	t.ctx = &t.bound
	if own := ctx.Err(); own != nil { // no request for somebody who has gone
		return own
	}
	if t.cov != nil {
		if err := t.borrow(s); err != nil || !t.cov.left() {
			return err
		}
		t.req.Claims = t.cov.rest
	}
	t.request(s)
	if t.req.Wait {
		return e.circuit.Refuses(t.req.Claims) // now, not behind the one who tries the store
	}
	return nil
}

// borrow takes what it can from leases that the context carries.
func (t *turn) borrow(s *settings) (err error) {
	if t.cov.refused != nil {
		return t.cov.refused
	}
	t.parent, err = t.engine.borrow(t.ctx, t.parent, t.cov, s)
	if err == nil && len(t.cov.owned) > 0 { // nobody waits on for what is lost
		ctx, cancel := context.WithCancel(t.ctx)
		stop := context.AfterFunc(t.parent, cancel)
		t.ctx, t.cov.unwatch = ctx, func() { stop(); cancel() }
	}
	return err
}

// finish does all that comes after the wait: it asks the store, unless the turn was
// given what another one of this process has, and makes the grant a lease.
func (t *turn) finish(s *settings, ask ask) (lease *Lease, rec *driver.Record, err error) {
	e, cov, given := t.engine, t.cov, &t.ticket.given
	switch {
	case !cov.left():
		return e.nested(t.parent, cov, nil, s), nil, nil
	case given.rec != nil, given.grant.Owner != "":
	case t.req.Wait:
		err = t.askInTurn(ask)
	default:
		err = t.askAtOnce(ask)
	}
	if err != nil || given.rec != nil {
		return nil, given.rec, err
	}
	lease, err = e.lease(t.parent, &given.grant, t.answer, s, nil)
	if err == nil && cov != nil && len(cov.by) > 0 {
		lease = e.nested(lease.ctx, cov, lease, s)
	}
	return lease, nil, err
}

// end tidies up, also after a panic of the store, tells the hooks, and returns the error for
// the caller. A grant that came to no lease is given back.
func (t *turn) end(lease *Lease, s *settings, err error) error {
	e := t.engine
	defer e.life.leave()
	t.bound.cancel()
	if t.cov != nil && t.cov.unwatch != nil {
		t.cov.unwatch()
	}
	if lease == nil {
		if g := t.ticket.given.grant; g.Owner != "" {
			e.giveBackGrant(t.bound.values, g, s.rule)
		}
		if t.cov != nil {
			err = e.giveUp(t.bound.values, t.cov, err)
		}
	}
	if err != nil && err != ErrPanicked {
		err = e.refusal(t.bound.values, t.wanted(), s, err, time.Since(t.began))
	}
	if t.observed {
		a := e.acquisition(t.wanted(), s)
		a.Attempts = t.attempts
		e.hooks.acquireEnd(t.bound.values, a, lease, err)
	}
	return err
}

// wanted is all that was asked for.
func (t *turn) wanted() []Claim {
	if t.cov != nil {
		return t.cov.wanted
	}
	return t.req.Claims
}

// request says what the store will be asked for, and takes a place for each claim.
func (t *turn) request(s *settings) {
	e, claims := t.engine, t.req.Claims
	t.handsOn = s.heir(claims)
	t.req = driver.Request{Claims: claims, TTL: e.ttl(s), Wait: !s.failFast, Rule: s.rule, Trace: e.hooks.trace(t.ctx)}
	if !t.req.Wait {
		return
	}
	t.only[0] = &t.ticket
	t.places = t.only[:]
	if len(claims) > 1 {
		tickets := make([]ticket, len(claims))
		t.places = make(places, len(claims))
		for i := range tickets {
			t.places[i] = &tickets[i]
		}
	}
	for i, p := range t.places {
		p.claim, p.once, p.trace = claims[i], s.once, t.req.Trace
		if t.handsOn {
			p.heir = t.req.TTL
		}
	}
}

// askAtOnce is for who does not wait for a holder.
func (t *turn) askAtOnce(ask ask) error {
	err := t.askStore(ask)
	if held := (*HeldError)(nil); err != nil && errors.As(err, &held) {
		t.blocked(t.engine.lines.holder(*held), held.Ahead)
	}
	return err
}

// askInTurn is for who was called forward, and gives up the places with the
// answer.
func (t *turn) askInTurn(ask ask) error {
	e, ctx := t.engine, t.ctx
	said, answered := errSilent, time.Time{}
	defer func() { e.lines.leave(t.places, said, answered) }()
	if t.waited {
		if ctx.Err() != nil { // its turn came too late
			return unlessHurried(ctx, t.asked, e.lines.obstacle(t.places[len(t.places)-1]))
		}
		t.asked = time.Now()
	}
	if t.waited || len(t.places) > 1 {
		e.lines.asks(t.places, t.asked)
	}
	t.req.OnHeld = t.told
	err := t.askStore(ask)
	answered = t.answer
	if err == nil && t.handsOn {
		t.ticket.given.grant.line = t.ticket.line
	}
	if rec := t.ticket.given.rec; rec != nil {
		e.lines.share(t.req.Claims[0].Key, rec, t.asked)
	}
	said = err
	if err != nil && (errors.Is(err, errHurried) || errors.Is(err, ErrUnavailable) && errors.Is(ctx.Err(), context.Canceled)) {
		said = errSilent // perhaps it had no time to answer
	}
	return err
}

// told is the request's OnHeld.
func (t *turn) told(held HeldError) {
	t.waits++
	t.engine.circuit.Held(t.ctx, t.req.Claims, held)
	held = t.engine.lines.told(t.places, held)
	t.blocked(held, held.Ahead)
}

// blocked tells the hooks who is in the way.
func (t *turn) blocked(held HeldError, ahead int) {
	if h := t.engine.hooks; h != nil {
		h.blocked(t.ctx, Acquisition{Claims: t.req.Claims, Rule: t.req.Rule, Wait: t.req.Wait, Store: t.engine.name}, held, ahead)
	}
}

// stands tells the hooks who keeps the caller waiting in the line of p, and
// returns the trace of that.
func (t *turn) stands(p *ticket) (trace string) {
	if t.engine.hooks == nil {
		return ""
	}
	held := t.engine.lines.inTheWay(p)
	t.blocked(held, p.ahead)
	return held.Trace
}

// quit is for a caller whose time is over while it waits in the line of its place i.
// It gives up that and those before, and returns what kept it waiting.
func (t *turn) quit(i int) error {
	err := t.engine.lines.obstacle(t.places[i])
	t.engine.lines.leave(t.places[:i+1], errSilent, time.Time{})
	return unlessHurried(t.ctx, t.asked, err)
}

// accepts takes what the caller was given in the line of p, and reports whether it
// was anything. Told is the trace that the hooks know already: who had the lease
// last may have come to the key later than p.
func (t *turn) accepts(p *ticket, told string) bool {
	given := &p.given
	switch {
	case given.rec != nil:
		given.rec = cloneRecord(given.rec)
	case given.grant.Owner == "":
		return false
	case given.from != told && given.from != "":
		t.blocked(HeldError{Key: p.claim.Key, Holder: given.grant.Owner, Trace: given.from, Local: true}, 0)
	}
	return true
}

// askStore asks, and notes in the ticket's given what it is granted.
func (t *turn) askStore(ask ask) error {
	t.req.Owner = t.engine.owners.next() // who is handed a lease needs none
	if t.engine.debts.n.Load() > 0 {
		ask = t.afterDebts(ask)
	}
	grant, rec, answered, err := t.engine.circuit.Ask(t.ctx, t.asked, t.req, ask)
	t.answer = answered
	t.attempts = t.waits
	if t.waits == 0 && !errors.Is(err, ErrCircuitOpen) || err == nil {
		t.attempts++
	}
	if grant.Since.IsZero() {
		grant.Since = t.asked
	}
	t.ticket.given.grant, t.ticket.given.rec = heldGrant{Grant: grant, heard: answered}, rec
	t.engine.storeCalled("acquire", t.asked, err)
	if err != nil {
		err = unlessHurried(t.ctx, t.asked, err)
	}
	return err
}

// errOwed: the store may hold the key for this process, which has released it.
var errOwed = errors.New("an earlier release of the key is still unanswered")

// afterDebts is ask once the engine owes the store no release of the claims. Who does
// not wait must not be told that the key is held, when it is so by nobody. Who waits
// gets in line, and is let in by the release when the store answers it.
func (t *turn) afterDebts(ask ask) ask {
	return func(ctx context.Context, req driver.Request) (driver.Grant, *driver.Record, error) {
		if !t.engine.debts.settle(ctx, req.Claims) && !req.Wait {
			return driver.Grant{}, nil, &UnavailableError{Op: "acquire", Err: errOwed}
		}
		t.asked = time.Now() // the lease counts from the request for it
		return ask(ctx, req)
	}
}
