package casstore

import (
	"context"
	"errors"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/keystate"
	"github.com/keyturn/keyturn/internal/waitloop"
)

// Answer is a grant or a record, or how the key is held.
type Answer struct {
	Grant  driver.Grant
	Record *driver.Record
	Held   *waitloop.State
}

// Acquisition is one call of Acquire or Begin. It implements [waitloop.Request], for waiters that are woken
// by a bell.
type Acquisition struct {
	*Store
	keystate.Request
	Wake waitloop.Bell // nil: it does not wait
	// Question asks once.
	Question func(context.Context) (Answer, error)

	over chan struct{} // of one that waits: closed when a question that nobody waits for is over
}

// Run asks until the request has an answer or gives up.
func (a *Acquisition) Run(ctx context.Context) (Answer, error) {
	return waitloop.Run(ctx, waitloop.Terms{Wait: a.Wait, OnHeld: a.OnHeld, Life: a.Life}, a)
}

// Ask implements [waitloop.Request].
func (a *Acquisition) Ask(ctx context.Context) (Answer, *waitloop.State, error) {
	a.Wake.Clear()
	ans, err, answered := Do(ctx, a.Store, a.Question, a.late)
	switch {
	case !answered:
		// The question may still be carried out, and is undone afterwards.
		return Answer{}, nil, &waitloop.Unanswered{Err: a.failure(context.Cause(ctx)), Over: a.over}
	case err == nil:
		return ans, ans.Held, nil
	case errors.Is(err, driver.ErrWouldDeadlock):
		return Answer{}, nil, err // nothing to undo: the owner held it before
	}
	a.Calls.Go(a.undo)
	return Answer{}, nil, a.failure(err)
}

func (a *Acquisition) failure(err error) error { return a.Failure("acquire", a.Claims[0].Key, err) }

// late is called when a question is over that nobody waits for any more.
func (a *Acquisition) late() {
	if a.over != nil {
		close(a.over)
	}
	a.Calls.Go(a.undo)
}

// Enter implements [waitloop.Request]. The first question of a request that waits joins the queue.
func (a *Acquisition) Enter(context.Context) (queued bool) {
	a.over = make(chan struct{})
	return true
}

// Messages implements [waitloop.Request].
func (a *Acquisition) Messages() <-chan struct{} { return a.Wake }

// Accept implements [waitloop.Request]: a message only says that it is time to ask.
func (a *Acquisition) Accept(struct{}) (Answer, bool) { return Answer{}, false }

// Poll implements [waitloop.Request]: the store rings the bell.
func (a *Acquisition) Poll() (pause time.Duration, slept func()) { return 0, func() {} }

// Withdraw implements [waitloop.Request].
func (a *Acquisition) Withdraw(ctx context.Context) error {
	_, err, answered := Do(ctx, a.Store, a.withdraw, func() { a.Calls.Go(a.undo) })
	switch {
	case !answered:
		return a.failure(context.Cause(ctx))
	case err != nil:
		a.Calls.Go(a.undo)
		return a.failure(err)
	}
	return nil
}

// withdraw ends everything that the request holds or waits for.
func (a *Acquisition) withdraw(ctx context.Context) (struct{}, error) {
	aim := Aim{Keys: driver.Keys(a.Claims), Owner: a.Owner, Looks: true}
	_, err := a.Transact(ctx, aim, func(st *keystate.State) error { return st.Withdraw(a.Owner) })
	return struct{}{}, err
}

// undo withdraws what nobody wants any more. The backend may be out for a while, so it goes on until it has
// succeeded, until everything has run out by itself, or until the store closes.
func (a *Acquisition) undo() {
	waitloop.Insist(a.Life, time.Now().Add(max(a.TTL, a.Left)), func() bool {
		_, err, answered := Do(a.Life, a.Store, a.withdraw, nil)
		return answered && err == nil
	})
}
