package core

import (
	"context"
	"fmt"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/handoff"
	"github.com/keyturn/keyturn/core/internal/waitline"
)

// askStore asks, unless a lease lingers for the request, and puts the result into the waiter's Got.
func (r *request) askStore() error {
	if r.engine.backend().lingers.Any() && r.takeLingering() {
		return nil
	}
	epoch := r.engine.backend().lingers.Epoch()
	r.sent.Owner = r.engine.owners.next() // made here, because a lease that is handed on needs no owner
	ctx := r.context()
	grant, rec, answered, err := r.engine.backend().circuit.Ask(ctx, r.asked, r.sent, r.send)
	r.answer = answered
	if grant.Since.IsZero() {
		grant.Since = r.asked
	}
	r.waiter.Got = waitline.Got{Record: rec, Grant: handoff.Grant{Grant: grant, Heard: answered}}
	if grant.Lingers {
		r.waiter.Got.Grant.Origin = &handoff.Origin{Granted: answered, Epoch: epoch}
	}
	if err != nil {
		err = unlessHurried(ctx, r.asked, err)
	}
	return err
}

// sendNow sends the request, after the debts for its keys. A caller that does not wait must not be told
// that the key is held if only an unanswered release of this process is in the way. A caller that
// waits joins the queue, and the release admits it when the store answers.
func (r *request) sendNow(ctx context.Context, req driver.Request) (grant driver.Grant, rec *driver.Record, err error) {
	e, b := r.engine, r.engine.backend()
	if e.debts.n.Load() > 0 {
		if err := e.debts.payFor(ctx, req.Claims); err != nil && !req.Wait {
			return driver.Grant{}, nil, &UnavailableError{Op: "acquire", Err: fmt.Errorf("an earlier release of the key has failed: %w", err), Refused: isRefusal(err)}
		}
		r.asked = time.Now() // the lease counts from this request
	}
	if r.waiter.Once && b.about.Ledger { // otherwise an executor has the records
		grant, rec, err = b.store.Begin(ctx, req)
	} else {
		grant, err = b.store.Acquire(ctx, req)
	}
	r.shown.Attempts = r.waits
	if r.waits == 0 || err == nil {
		r.shown.Attempts++
	}
	e.storeCalled("acquire", r.asked, err)
	return grant, rec, err
}
