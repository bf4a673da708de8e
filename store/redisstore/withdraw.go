package redisstore

import (
	"context"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/redisstore/internal/send"
)

// AnsweredLate implements [send.Late]. It undoes what the last question may have done, once
// that question has returned.
func (a *acquisition) AnsweredLate() {
	if a.queued || a.last.Attempts.Possible() > 0 {
		a.undo(a.soFar())
	}
}

// undo undoes what the request may have done. It leaves what the owner held before: the holder
// of the lease repeats a downgrade that was not answered.
func (a *acquisition) undo(claims []driver.Claim) {
	if !a.req.Held {
		a.s.undo(a.req.Owner, claims, max(a.req.TTL, 2*a.s.cfg.waiterLease)) // the life of a lease, and of a place in the queue
	}
}

// soFar returns the claims that the request may hold or wait for.
func (a *acquisition) soFar() []driver.Claim {
	n := 0
	for _, group := range a.groups[:a.asked] {
		n += len(group)
	}
	return a.req.Claims[:n]
}

// grace is how long the answer may take after the end of a wait, before the server counts as
// silent.
const grace = 500 * time.Millisecond

// ended leaves the queue when the wait was cut short, and returns the error for that. Whether a
// holder was in the way or the server has stopped answering shows in whether the server answers
// now: its last answer may be a while ago.
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

// giveBack ends what the request holds of claims, and its place in the queue. It waits for a
// moment at most. What the server has not answered by then is repeated in the background.
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
