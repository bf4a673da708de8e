package core

import (
	"context"
	"errors"
	"time"

	"github.com/keyturn/keyturn/core/internal/carried"
	"github.com/keyturn/keyturn/core/internal/handoff"
)

// newLease makes a lease of a grant that has just come, unless it came too late. A zero came means
// that nobody has looked at the clock yet.
func (e *Engine) newLease(ctx context.Context, grant *handoff.Grant, came time.Time, s *settings, borrowed *carried.Lease) (*Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, e.waitEnded(ctx, grant.Claims[0].Key, err)
	}
	l := &Lease{engine: e, grant: *grant, terms: s.terms(), borrowed: borrowed, depth: 1}
	if borrowed != nil {
		l.depth = borrowedDepth
	}
	l.begin(ctx)
	l.watch.Begin(e.backend().watchdog, (*watched)(l), &l.grant.Grant, l.grant.Heard)
	if e.hooks != nil {
		l.ctx = e.hooks.holdStart(l.ctx, l)
	}
	if came.IsZero() || e.hooks != nil { // a hook may have taken a while
		came = time.Now()
	}
	if s.minHold > 0 {
		stays := came.Add(s.minHold)
		l.grant.MinHoldEnd = &stays
	}
	err := e.keep(l, came, s.maxHold)
	if err != nil {
		_ = l.conclude(err)
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
