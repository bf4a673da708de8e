package core

import (
	"context"
	"errors"
	"time"
)

// turn is a request on its way through the lines to the store. What it needs on
// the way is in it, so that an acquisition of one key does not allocate each for
// itself.
type turn struct {
	engine  *Engine
	ctx     context.Context
	bound   bound // what ctx is, or descends from
	asked   time.Time
	answer  time.Time // when the store's last one came; zero: it was not asked
	req     Request
	handsOn bool // its grant may go to the next in line, and it may get another's

	attempts int // as in Acquisition
	waits    int // how often the store said that it has to wait

	places places
	ticket ticket // the only place's
	only   [1]*ticket
}

// failFastTime is for how long a store that says nothing is waited for by those
// who do not wait for a holder.
const failFastTime = 5 * time.Second

// newTurn gives a turn whose context ends with ctx, with the maximum wait, and
// when the engine closes.
func (e *Engine) newTurn(ctx context.Context, began time.Time, s *settings) *turn {
	t := &turn{engine: e, asked: began}
	t.bound.values, t.bound.parent, t.bound.ending, t.bound.timeout = ctx, ctx, e.life.ending, s.maxWait
	if s.failFast && (s.maxWait == 0 || s.maxWait > failFastTime) {
		t.bound.timeout = failFastTime
	}
	t.ctx = &t.bound
	return t
}

// claim says what the turn is for.
func (t *turn) claim(claims []Claim, s *settings) {
	e := t.engine
	t.handsOn = s.heir(claims)
	t.req = Request{Claims: claims, TTL: e.ttl(s), Wait: !s.failFast, Rule: s.rule, Trace: e.trace(t.ctx)}
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

// take asks the store as soon as the caller was called forward in every line.
func (t *turn) take(ask ask) (Grant, *Record, error) {
	e, ctx := t.engine, t.ctx
	if !t.req.Wait {
		grant, rec, err := t.askStore(ask)
		if held := (*HeldError)(nil); err != nil && errors.As(err, &held) {
			t.blocked(t.engine.lines.holder(*held), held.Ahead)
		}
		return grant, rec, err
	}
	if err := e.circuits.refuses(t.req.Claims); err != nil {
		return Grant{}, nil, err // now, not behind the one who tries the store
	}
	given, waited, err := e.lines.enter(t)
	if err != nil || given.rec != nil || given.grant.Owner != "" {
		return given.grant, given.rec, unlessHurried(ctx, t.asked, err)
	}
	said, answered := errSilent, time.Time{}
	defer func() { e.lines.leave(t.places, said, answered) }()
	if waited {
		if ctx.Err() != nil { // its turn came too late
			return Grant{}, nil, unlessHurried(ctx, t.asked, e.lines.obstacle(t.places[len(t.places)-1]))
		}
		t.asked = time.Now()
	}
	if waited || len(t.places) > 1 {
		e.lines.asks(t.places, t.asked)
	}
	t.req.OnHeld = t.told
	grant, rec, err := t.askStore(ask)
	answered = t.answer
	if err == nil && t.handsOn {
		grant.line = t.ticket.line
		t.ticket.given.grant = grant
	}
	if rec != nil {
		e.lines.share(t.req.Claims[0].Key, rec, t.asked)
	}
	said = err
	if err != nil && (errors.Is(err, errHurried) || errors.Is(err, ErrUnavailable) && errors.Is(ctx.Err(), context.Canceled)) {
		said = errSilent // perhaps it had no time to answer
	}
	return grant, rec, err
}

// told is the request's OnHeld.
func (t *turn) told(held HeldError) {
	t.waits++
	t.engine.circuits.told(t.ctx, t.req.Claims, held)
	held = t.engine.lines.told(t.places, held)
	t.blocked(held, held.Ahead)
}

// blocked tells the observer who is in the way.
func (t *turn) blocked(held HeldError, ahead int) {
	o := t.engine.observer
	if o == nil {
		return
	}
	told := false
	defer func() {
		if !told {
			t.abandon()
		}
	}()
	o.Blocked(t.ctx, Acquisition{Claims: t.req.Claims, Rule: t.req.Rule, Wait: t.req.Wait, Store: t.engine.name}, held, ahead)
	told = true
}

// abandon is for the observer's panic: nobody is left to give up the places, or to
// release what was handed on to them meanwhile.
func (t *turn) abandon() {
	t.engine.lines.leave(t.places, errSilent, time.Time{})
	for _, p := range t.places {
		if g := p.given.grant; g.Owner != "" {
			t.engine.giveBackGrant(t.ctx, g)
		}
	}
}

func (t *turn) askStore(ask ask) (Grant, *Record, error) {
	t.req.Owner = t.engine.owners.next() // who is handed a lease needs none
	grant, rec, answered, err := t.engine.circuits.ask(t.ctx, t.asked, t.req, ask)
	t.answer = answered
	t.attempts = t.waits
	if t.waits == 0 && !errors.Is(err, ErrCircuitOpen) || err == nil {
		t.attempts++
	}
	told := false
	defer func() {
		if !told && grant.Owner != "" { // the observer panicked
			t.engine.undo(t.ctx, grant)
		}
	}()
	t.engine.storeCalled("acquire", t.asked, err)
	told = true
	if grant.Since.IsZero() {
		grant.Since = t.asked
	}
	grant.heard = answered
	if err != nil {
		err = unlessHurried(t.ctx, t.asked, err)
	}
	return grant, rec, err
}
