package redisstore

import (
	"context"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/waitloop"
	"github.com/keyturn/keyturn/store/redisstore/internal/script"
	"github.com/keyturn/keyturn/store/redisstore/internal/send"
)

// AnsweredLate implements [send.Late]. It undoes what the last question may have done, once
// that question has returned.
func (a *acquisition) AnsweredLate() {
	a.isOver()
	possible := a.last.Attempts.Possible()
	if a.queued || possible > 0 {
		a.undo(a.soFar())
	}
	if a.resent || possible > 1 || possible > 0 && !script.Answered(a.last.Err) {
		a.s.dropCopies(a.req.Owner, a.soFar(), 0)
	}
}

// isOver says that the last question, which nobody waits for any more, has returned.
func (a *acquisition) isOver() {
	if a.over != nil {
		close(a.over)
	}
}

// undo undoes what the request may have done.
func (a *acquisition) undo(claims []driver.Claim) {
	a.s.undo(a.req.Owner, claims, max(a.req.TTL, 2*a.s.cfg.waiterLease)) // the life of a lease, and of a place in the queue
}

// soFar returns the claims that the request may hold or wait for.
func (a *acquisition) soFar() []driver.Claim {
	n := 0
	for _, group := range a.groups[:a.asked] {
		n += len(group)
	}
	return a.req.Claims[:n]
}

// unanswered is the error for a question that had no answer when ctx ended.
func (a *acquisition) unanswered(ctx context.Context) error {
	key := a.groups[max(a.asked, 1)-1][0].Key
	return &waitloop.Unanswered{Err: &driver.UnavailableError{Op: "acquire", Key: key, Err: silence(ctx)}, Over: a.over}
}

// Withdraw implements [waitloop.Request].
func (a *acquisition) Withdraw(ctx context.Context) error {
	claims := a.soFar()
	if a.resent {
		defer a.s.calls.Go(func() { a.s.dropCopies(a.req.Owner, claims, 0) })
	}
	return a.giveBack(ctx, claims)
}

// giveBack releases what the request holds of claims, and its place in the queue. What the
// server has not been told when ctx ends, a goroutine tells it later.
func (a *acquisition) giveBack(ctx context.Context, claims []driver.Claim) error {
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
		a.s.calls.Go(again)
		return failure("acquire", claims[0].Key, err)
	}
	return nil
}
