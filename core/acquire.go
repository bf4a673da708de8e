package core

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ask is the store's part of an acquisition: Store.Acquire or Ledger.Begin.
type ask func(context.Context, Request) (Grant, *Record, error)

func (e *Engine) acquirePlain(ctx context.Context, claims []Claim, s *settings) (*Lease, error) {
	l, _, err := e.acquire(ctx, claims, s, e.askPlain)
	return l, err
}

// plainly asks for a lease and no record.
func plainly(store Store) ask {
	return func(ctx context.Context, req Request) (Grant, *Record, error) {
		g, err := store.Acquire(ctx, req)
		return g, nil, err
	}
}

// acquire checks what can be checked without I/O, obtains a grant and makes it
// a lease. Of lease, record and error exactly one is given. The claims are the
// engine's own: the caller of a public method may use its slice again.
func (e *Engine) acquire(ctx context.Context, claims []Claim, s *settings, ask ask) (*Lease, *Record, error) {
	if err := sortClaims(claims); err != nil {
		return nil, nil, err
	}
	if err := e.Supports(claims...); err != nil {
		return nil, nil, err
	}
	cov := e.covered(ctx, claims, s)
	if len(cov.rest) > 0 { // a nested lease is no new one: Close waits for the outer one's work
		if err := e.life.enter(); err != nil {
			return nil, nil, err
		}
		defer e.life.leave()
	}
	if e.observer == nil {
		lease, rec, _, err := e.obtain(ctx, ctx, claims, cov, s, ask)
		return lease, rec, err
	}
	a := e.acquisition(claims, s)
	asking := e.observer.AcquireStart(ctx, a)
	var lease *Lease
	var rec *Record
	err := ErrPanicked // unless obtain returns
	defer func() { e.acquireEnd(asking, a, lease, err) }()
	lease, rec, a.Attempts, err = e.obtain(asking, ctx, claims, cov, s, ask)
	return lease, rec, err
}

// acquisition is what observers are told that was asked for.
func (e *Engine) acquisition(claims []Claim, s *settings) Acquisition {
	return Acquisition{Claims: claims, Rule: s.rule, Wait: !s.failFast, Store: e.name}
}

// acquireEnd tells the observer. Should that panic, nobody gets the lease and
// nobody would release it.
func (e *Engine) acquireEnd(ctx context.Context, a Acquisition, lease *Lease, err error) {
	told := false
	defer func() {
		if !told && lease != nil {
			_ = lease.Release(ctx)
		}
	}()
	e.observer.AcquireEnd(ctx, a, lease, err)
	told = true
}

// obtain gets what the context does not hold yet. The two contexts differ by what
// an observer put into the first; the lease's context descends from the second.
// Attempts is how often the store was asked.
func (e *Engine) obtain(ctx, parent context.Context, claims []Claim, cov cover, s *settings, ask ask) (_ *Lease, _ *Record, attempts int, _ error) {
	began := time.Now()
	if own := ctx.Err(); own != nil { // no request for somebody who has gone
		return nil, nil, 0, e.refusal(ctx, claims, s, own, 0)
	}
	switch {
	case cov.refused != nil:
		return nil, nil, 0, cov.refused
	case len(cov.rest) == 0:
		return e.nested(parent, cov, nil, s), nil, 0, nil
	}
	t := e.newTurn(ctx, began, s)
	defer t.bound.cancel()
	lease, rec, err := e.obtainRest(t, parent, cov, s, ask)
	if err != nil {
		return nil, nil, t.attempts, e.refusal(ctx, claims, s, err, time.Since(began))
	}
	return lease, rec, t.attempts, nil
}

// obtainRest borrows what it can, waits in line for the others, asks the store
// and makes the grant a lease.
func (e *Engine) obtainRest(t *turn, parent context.Context, cov cover, s *settings, ask ask) (lease *Lease, rec *Record, err error) {
	outer := parent
	var grant Grant
	defer func() {
		if lease != nil {
			return
		}
		if grant.Owner != "" { // also after an observer's panic
			e.giveBackGrant(outer, grant)
		}
		err = e.giveUp(outer, cov, err)
	}()
	if parent, err = e.borrow(t.ctx, parent, &cov, s); err != nil {
		return nil, nil, err
	}
	if len(cov.rest) == 0 {
		return e.nested(parent, cov, nil, s), nil, nil
	}
	if len(cov.owned) > 0 { // nobody waits on for what is lost
		c, cancel := context.WithCancel(t.ctx)
		defer cancel()
		defer context.AfterFunc(parent, cancel)()
		t.ctx = c
	}
	t.claim(cov.rest, s)
	grant, rec, err = t.take(ask)
	if err != nil || rec != nil {
		return nil, rec, err
	}
	if lease, err = e.lease(parent, grant, t.answer, s, nil); err != nil {
		return nil, nil, err
	}
	if len(cov.by) > 0 {
		lease = e.nested(lease.ctx, cov, lease, s)
	}
	return lease, nil, nil
}

// giveUp stops renewing what was borrowed for an acquisition that came to
// nothing. That it did may be due to the loss of one of those.
func (e *Engine) giveUp(ctx context.Context, cov cover, err error) error {
	for _, l := range cov.owned {
		if lost := l.Release(ctx); errors.Is(lost, ErrLeaseLost) {
			err = lost
		}
	}
	return err
}

// errHurried: the store, or the line for it, had hardly any time to answer.
var errHurried = errors.New("no answer in the little time there was")

// unlessHurried marks an outage that is one for the caller only, whose deadline
// came soon: nothing runs unlocked for it.
func unlessHurried(ctx context.Context, asked time.Time, err error) error {
	if !errors.Is(err, ErrUnavailable) || !hurried(ctx, asked) {
		return err
	}
	return &UnavailableError{Op: "acquire", Err: fmt.Errorf("%w: %v", errHurried, err)}
}

// storeCalled tells the observer, if there is one, of an answer to op.
func (e *Engine) storeCalled(op string, asked time.Time, err error) {
	if e.observer != nil {
		e.observer.StoreCalled(e.name, op, time.Since(asked), err)
	}
}

// trace is where the request comes from, for those whom it will keep waiting.
func (e *Engine) trace(ctx context.Context) string {
	if t, ok := e.observer.(Tracer); ok {
		return t.Trace(ctx)
	}
	return ""
}

// refusal turns what kept the grant away into the error for the caller. The
// caller's own end comes first, but for an outage that a deadline uncovered:
// that the store was silent until then is what the caller needs to know.
func (e *Engine) refusal(ctx context.Context, claims []Claim, s *settings, err error, waited time.Duration) error {
	var held *HeldError
	var full *TooManyWaitersError
	switch own := ctx.Err(); {
	case e.life.ending.Err() != nil:
		return ErrClosed
	case own != nil && (errors.Is(own, context.Canceled) || !errors.Is(err, ErrUnavailable)):
		return fmt.Errorf("keyturn: waiting for %q: %w", claims[0].Key, own)
	case errors.As(err, &held):
		told := e.lines.holder(*held) // the error is the store's, or shared by a line
		told.RetryAfter = e.holds.retryAfter(s.rule, told.Key, told.RetryAfter)
		if !s.failFast {
			told.timedOut, told.Waited = true, waited
		}
		return &told
	case errors.As(err, &full):
		full.RetryAfter = e.holds.retryAfter(s.rule, full.Key, 0)
		return full
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		// The bound was the engine's, and the store does not say who holds.
		if waited < fairTime {
			err = errHurried
		}
		return &UnavailableError{Op: "acquire", Err: err}
	}
	return err
}

// lease makes a grant, that came just now, a lease, unless that was too late. The
// zero time stands for one that nobody has looked at the clock for.
func (e *Engine) lease(ctx context.Context, grant Grant, came time.Time, s *settings, borrowed *foreign) (*Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("keyturn: waiting for %q: %w", grant.Claims[0].Key, err)
	}
	l := &Lease{engine: e, grant: grant, terms: s.terms(), borrowed: borrowed}
	if borrowed != nil {
		l.depth, l.deadline.shared = borrowedDepth, true
	}
	l.deadline.index = -1
	l.begin(ctx)
	if e.observer != nil {
		e.watchdog.begin(l)
		l.ctx = e.holdStart(l)
	}
	if came.IsZero() || e.observer != nil { // who may take a while
		came = time.Now()
	}
	err := e.keep(l, came)
	if err != nil {
		l.end(err)
		l.cancel(err)
		return nil, err
	}
	return l, nil
}

// holdStart tells the observer. Should that panic, nobody gets the lease's context
// and nobody would end it.
func (e *Engine) holdStart(l *Lease) context.Context {
	told := false
	defer func() {
		if !told {
			l.cancel(ErrPanicked)
		}
	}()
	ctx := e.observer.HoldStart(l.ctx, l)
	told = true
	return ctx
}

// errTooLate: the process was paused, or the store took longer than the TTL. By
// now the key may be somebody else's.
var errTooLate = errors.New("the answer came when the lease's time was over")

// keep hands the lease to the watchdog and to the engine's books.
func (e *Engine) keep(l *Lease, now time.Time) error {
	if !e.watchdog.add(l, now) {
		return &UnavailableError{Op: "acquire", Err: errTooLate}
	}
	if err := e.life.hold(l); err != nil {
		_, _ = e.watchdog.remove(l)
		return err
	}
	return nil
}

// undo gives back a grant that nobody wants any more, without having the
// caller wait for it. Close waits.
func (e *Engine) undo(ctx context.Context, grant Grant) {
	e.life.tidying.Go(func() {
		ctx := e.detached(ctx)
		defer ctx.cancel()
		_ = e.storeRelease(ctx, grant) // else it runs out with its TTL
	})
}
