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
func (r *request) askStore(ask askFunc) error {
	if r.engine.backend().lingers.Any() && r.takeLingering() {
		return nil
	}
	epoch := r.engine.backend().lingers.Epoch()
	r.sent.Owner = r.engine.owners.next() // made here, because a lease that is handed on needs no owner
	if r.engine.hooks != nil {
		ask = r.andTell(ask)
	}
	if r.engine.debts.n.Load() > 0 {
		ask = r.afterDebts(ask)
	}
	ctx := r.context()
	grant, rec, answered, err := r.engine.backend().circuit.Ask(ctx, r.asked, r.sent, ask)
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

// andTell returns ask with what hooks are told of it: nothing, if the request is not sent.
func (r *request) andTell(ask askFunc) askFunc {
	return func(ctx context.Context, req driver.Request) (driver.Grant, *driver.Record, error) {
		grant, rec, err := ask(ctx, req)
		r.attempts = r.waits
		if r.waits == 0 || err == nil {
			r.attempts++
		}
		r.engine.storeCalled("acquire", r.asked, err)
		return grant, rec, err
	}
}

// afterDebts returns ask with a payment of debts before it. A caller that does not wait must
// not be told that the key is held if only an unanswered release of this process is in the way.
// A caller that waits joins the queue, and the release admits it when the store answers.
func (r *request) afterDebts(ask askFunc) askFunc {
	return func(ctx context.Context, req driver.Request) (driver.Grant, *driver.Record, error) {
		if err := r.engine.debts.payFor(ctx, req.Claims); err != nil && !req.Wait {
			err = &UnavailableError{Op: "acquire", Err: fmt.Errorf("an earlier release of the key has failed: %w", err), Refused: isRefusal(err)}
			return driver.Grant{}, nil, err
		}
		r.asked = time.Now() // the lease counts from this request
		return ask(ctx, req)
	}
}
