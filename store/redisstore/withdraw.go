package redisstore

import (
	"context"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/redisstore/internal/send"
)

// AnsweredLate implements [send.Late]: it takes back what may have come of the last question, once that is home.
func (a *acquisition) AnsweredLate() {
	if a.queued || a.last.Attempts.Possible() > 0 {
		a.undo(a.soFar())
	}
}

// undo takes back what may have come of the request, but not what its owner had
// before: a downgrade that went unanswered is repeated by whoever holds the lease.
func (a *acquisition) undo(claims []driver.Claim) {
	if !a.req.Held {
		a.s.undo(a.req.Owner, claims, max(a.req.TTL, 2*a.s.cfg.waiterLease)) // of a lease, of a place in line
	}
}

// soFar is what the request may hold or wait for.
func (a *acquisition) soFar() []driver.Claim {
	n := 0
	for _, group := range a.groups[:a.asked] {
		n += len(group)
	}
	return a.req.Claims[:n]
}

// grace is how long an answer may take, once the wait is over, before the
// server counts as silent.
const grace = 500 * time.Millisecond

// ended leaves the line when the wait was cut short, and is the error for that.
// Whether there was a holder in the way or a server that has stopped answering
// shows in whether it answers now: the last time it did may be a while ago.
func (a *acquisition) ended(ctx context.Context) error {
	if a.told.IsZero() {
		return a.s.closedOr(&driver.UnavailableError{Op: "acquire", Key: a.groups[max(a.asked, 1)-1][0].Key, Err: silence(ctx)})
	}
	if err := a.giveBack(ctx, a.soFar()); err != nil {
		return a.s.closedOr(err)
	}
	held := a.held
	held.RetryAfter = max(held.RetryAfter-time.Since(a.told), 0)
	if held.HeldFor > 0 {
		held.HeldFor += time.Since(a.told)
	}
	return a.s.closedOr(&held)
}

// giveBack ends what the request has, and its place in line, of claims. It does
// not wait for longer than a moment; what could not be said by then is said
// later.
func (a *acquisition) giveBack(ctx context.Context, claims []driver.Claim) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	parts := a.s.releases(a.req.Owner, claims, 0)
	trouble := func() error {
		for _, p := range parts {
			if p.Err != nil {
				return p.Err
			}
		}
		return nil
	}
	again := func() {
		if trouble() != nil {
			a.undo(claims)
		}
	}
	if !a.s.sender.Await(ctx, send.LateFunc(again), requests(parts)) {
		return &driver.UnavailableError{Op: "acquire", Key: claims[0].Key, Err: silence(ctx)}
	}
	if err := trouble(); err != nil {
		a.s.tasks.Go(again)
		return failure("acquire", claims[0].Key, err)
	}
	return nil
}
