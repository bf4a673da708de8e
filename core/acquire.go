package core

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/carried"
	"github.com/keyturn/keyturn/core/internal/circuit"
	"github.com/keyturn/keyturn/core/internal/handoff"
	"github.com/keyturn/keyturn/core/internal/waitline"
	"github.com/keyturn/keyturn/core/observe"
)

// ask is the store's part of an acquisition: Store.Acquire or Begin.
type ask func(context.Context, driver.Request) (driver.Grant, *driver.Record, error)

func (e *Engine) acquirePlain(ctx context.Context, claims []Claim, s *settings) (*Lease, error) {
	l, _, err := e.acquire(ctx, claims, s, e.askPlain)
	return l, err
}

// plainly asks for a lease and no record.
func plainly(store driver.Store) ask {
	return func(ctx context.Context, req driver.Request) (driver.Grant, *driver.Record, error) {
		g, err := store.Acquire(ctx, req)
		return g, nil, err
	}
}

// acquire checks what can be checked without I/O, obtains a grant and makes it a lease. It
// returns exactly one of lease, record and error. claims belong to the engine: the caller of a
// public method may use its own slice again.
//
// Thousands of callers may wait in line at a time, each on a stack that doubles when it is
// full. So everything before and after the wait is in functions that have returned by then, or
// are not called yet.
func (e *Engine) acquire(ctx context.Context, claims []Claim, s *settings, ask ask) (lease *Lease, rec *driver.Record, err error) {
	if err := sortClaims(claims); err != nil {
		return nil, nil, err
	}
	if err := e.supports(claims); err != nil {
		return nil, nil, err
	}
	cov := e.covered(ctx, claims, s)
	if !cov.left() {
		lease, err = e.acquireNested(ctx, claims, cov, s)
		return lease, nil, err
	}
	reg := e.life.register(claims[0].Key)
	if err := reg.enter(); err != nil {
		return nil, nil, err
	}
	r := requests.Get().(*request)
	r.engine, r.register, r.parent, r.cov, r.sent.Claims = e, reg, ctx, cov, claims
	defer func() {
		panicked := lease == nil && rec == nil && err == nil // true if the store did not return
		if panicked {
			err = observe.ErrPanicked
		}
		if err = r.end(lease, s, err); err != nil {
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
		lease, rec, err = r.finish(s, ask)
	}
	return lease, rec, err
}

// acquireNested is acquire if ctx holds all the claims. Close does not wait for a nested lease:
// it waits for the work of the outer one.
func (e *Engine) acquireNested(ctx context.Context, claims []Claim, cov *cover, s *settings) (lease *Lease, err error) {
	asking := ctx
	if e.hooks != nil {
		a := e.acquisition(claims, s)
		asking = e.hooks.acquireStart(ctx, a)
		defer func() { e.hooks.acquireEnd(asking, a, lease, err) }()
	}
	if own := asking.Err(); own != nil { // the caller has gone, so it gets no lease
		return nil, e.refusal(asking, claims, s, own, 0)
	}
	if cov.refused != nil {
		return nil, cov.refused
	}
	return e.nested(ctx, cov, nil, s), nil
}

// acquisition returns the hooks' description of a request.
func (e *Engine) acquisition(claims []Claim, s *settings) observe.Acquisition {
	return observe.Acquisition{Claims: claims, Rule: s.rule, Wait: !s.failFast, Store: e.about.Name}
}

// giveUp stops the renewal of leases that were borrowed for an acquisition that failed. The
// loss of one of them may be why it failed.
func (e *Engine) giveUp(ctx context.Context, cov *cover, err error) error {
	for _, l := range cov.owned {
		if lost := l.Release(ctx); errors.Is(lost, ErrLeaseLost) {
			err = lost
		}
	}
	return err
}

// unlessHurried marks an outage that concerns only the caller, whose deadline left the store
// too little time: nothing runs unlocked because of it.
func unlessHurried(ctx context.Context, asked time.Time, err error) error {
	if !errors.Is(err, ErrUnavailable) || !circuit.CutShort(ctx, asked) {
		return err
	}
	return &UnavailableError{Op: "acquire", Err: fmt.Errorf("%w: %v", waitline.ErrHurried, err)}
}

// storeCalled tells the hooks, if there are any, of the store's answer to op.
func (e *Engine) storeCalled(op string, asked time.Time, err error) {
	if e.hooks != nil {
		e.hooks.storeCalled(e.about.Name, op, time.Since(asked), err)
	}
}

// refusal returns the caller's error for a request without a grant. The end of the caller's
// context comes first, with one exception: if a deadline ended the wait for a silent store, the
// outage comes first, because the caller needs to know it.
func (e *Engine) refusal(ctx context.Context, claims []Claim, s *settings, err error, waited time.Duration) error {
	var held *HeldError
	var full *waitline.FullError
	switch own := ctx.Err(); {
	case e.life.ending.Err() != nil:
		return ErrClosed
	case own != nil && (errors.Is(own, context.Canceled) || !errors.Is(err, ErrUnavailable)):
		return fmt.Errorf("keyturn: waiting for %q: %w", claims[0].Key, own)
	case errors.As(err, &held):
		told := e.lines.Holder(*held) // a copy: the error is the store's, or several callers share it
		told.RetryAfter = e.holds.RetryAfter(s.rule, told.Key, told.HeldFor, told.RetryAfter)
		if !s.failFast {
			told.TimedOut, told.Waited = true, waited
		}
		return &told
	case errors.As(err, &full):
		return &TooManyWaitersError{Key: full.Key, Limit: full.Limit, RetryAfter: e.holds.RetryAfter(s.rule, full.Key, 0, 0)}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		// The engine's timeout ended the wait, and the store did not say who holds the key.
		if waited < circuit.FairTime {
			err = waitline.ErrHurried
		}
		return &UnavailableError{Op: "acquire", Err: err}
	}
	return err
}

// lease makes a lease of a grant that has just come, unless it came too late. A zero came means
// that nobody has looked at the clock yet.
func (e *Engine) lease(ctx context.Context, grant *handoff.Grant, came time.Time, s *settings, borrowed *carried.Lease) (*Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("keyturn: waiting for %q: %w", grant.Claims[0].Key, err)
	}
	l := &Lease{engine: e, grant: *grant, terms: s.terms(), borrowed: borrowed}
	if borrowed != nil {
		l.depth = borrowedDepth
	}
	l.begin(ctx)
	l.watch.Begin(e.watchdog, (*watched)(l), &l.grant.Grant, l.grant.Heard)
	if e.hooks != nil {
		l.ctx = e.hooks.holdStart(l.ctx, l)
	}
	if came.IsZero() || e.hooks != nil { // a hook may have taken a while
		came = time.Now()
	}
	if s.minHold > 0 {
		l.grant.Stays = came.Add(s.minHold)
	}
	err := e.keep(l, came, s.maxHold)
	if err != nil {
		l.end(err)
		l.cancel(err)
		return nil, err
	}
	return l, nil
}

// errTooLate: the process was paused, or the store took longer than the TTL. By now somebody
// else may have the key.
var errTooLate = errors.New("the answer came when the lease's time was over")

// keep passes the lease to the watchdog and to the engine's books.
func (e *Engine) keep(l *Lease, now time.Time, maxHold time.Duration) error {
	l.granted = now
	if !l.watch.Start(now, maxHold) {
		return &UnavailableError{Op: "acquire", Err: errTooLate}
	}
	l.register = e.life.register(l.Key())
	if err := l.register.hold(l); err != nil {
		_, _ = l.watch.Release(ErrReleased)
		return err
	}
	return nil
}

// undo gives back a grant that nobody wants any more, without making the caller wait. Close
// waits for it. It is a debt from the beginning, so the next caller that asks for the key waits
// for it.
func (e *Engine) undo(ctx context.Context, grant handoff.Grant, rule string) {
	if d := e.debts.add(grant, rule); d != nil {
		ctx := context.WithoutCancel(ctx)
		e.life.tidying.Go(func() { e.debts.try(ctx, d) })
	}
}
