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

// Acquire is Acquire of [driver.Store].
func (s *Store) Acquire(ctx context.Context, req driver.Request) (driver.Grant, error) {
	ans, err := s.acquire(ctx, keystate.Request{Request: req})
	return ans.Grant, err
}

func (s *Store) acquire(ctx context.Context, r keystate.Request) (Answer, error) {
	if err := s.Check(r.Owner, r.Claims, r.TTL); err != nil {
		return Answer{}, err
	}
	if err := s.Calls.Enter(); err != nil {
		return Answer{}, err
	}
	defer s.Calls.Leave()
	return s.Backend.Acquire(ctx, r)
}

// Acquisition is one call of Acquire or Begin. It implements [waitloop.Request], for waiters that are woken
// by a bell.
type Acquisition struct {
	*Store
	keystate.Request
	Wake waitloop.Bell // nil: it does not wait
	// Within is the longest time until a request that waits asks again, although no message comes.
	Within time.Duration
	// Notice is how long the first in the queue has to notice that a lease has run out. It may be dead, so those
	// behind it ask then. 0: they need not.
	Notice time.Duration
	// Question asks once.
	Question func(context.Context) (Answer, error)
	// Granted makes an answer of the message that rang the bell, if it is a grant; nil: messages only say
	// that it is time to ask.
	Granted func() (Answer, bool)
	// TakeBack undoes, in the background, what questions may have left behind; nil: by [Acquisition.Undo].
	TakeBack func()

	seen  string    // the holder that was in the way of the last question
	since time.Time // when it was seen for the first time

	over chan struct{} // of one that waits: closed when a question that nobody waits for is over
}

// Run asks until the request has an answer or gives up.
func (a *Acquisition) Run(ctx context.Context) (Answer, error) {
	return waitloop.Run(ctx, waitloop.Terms{Wait: a.Wait, OnHeld: a.OnHeld, Life: a.Life}, a)
}

// Ask implements [waitloop.Request].
func (a *Acquisition) Ask(ctx context.Context) (Answer, *waitloop.State, error) {
	a.Wake.Clear()
	ans, err, answered := Do(ctx, a.Store, a.keys(), a.Question, a.late)
	switch {
	case !answered:
		// The question may still be carried out, and is undone afterwards.
		return Answer{}, nil, &waitloop.Unanswered{Err: a.failure(err), Over: a.over}
	case err == nil:
		return ans, ans.Held, nil
	case errors.Is(err, driver.ErrWouldDeadlock):
		return Answer{}, nil, err // nothing to undo: the owner held it before
	}
	a.takeBack()
	return Answer{}, nil, a.failure(err)
}

func (a *Acquisition) keys() []string { return driver.Keys(a.Claims) }

func (a *Acquisition) failure(err error) error { return a.Failure("acquire", a.Claims[0].Key, err) }

// late is called when a question is over that nobody waits for any more.
func (a *Acquisition) late() {
	if a.over != nil {
		close(a.over)
	}
	a.takeBack()
}

// Answer is the caller's answer for that of a decision. since is a moment before the decision was asked for.
func (a *Acquisition) Answer(got keystate.Answer, since time.Time) Answer {
	switch {
	case got.Record != nil:
		return Answer{Record: &got.Record.Record}
	case got.Held != nil:
		return Answer{Held: a.held(got)}
	}
	return Answer{Grant: a.Grant(got, since)}
}

// Grant is what the caller gets. The engine is told that somebody wants the lease if the lease names the inbox
// that this request has.
func (a *Acquisition) Grant(got keystate.Answer, since time.Time) driver.Grant {
	return driver.Grant{
		Owner: a.Owner, Claims: a.Claims, TTL: a.TTL, Token: got.Token, HandOffs: got.Reserved, Since: since, Contended: got.Contended,
		Lingers: len(a.Claims) == 1 && got.Member.Lingers() && got.Member.Inbox == a.Inbox,
	}
}

// held says when to ask again although no message comes. If the backend can't tell for how long the holder has had
// the key, it is at least as long as this request has seen it.
func (a *Acquisition) held(got keystate.Answer) *waitloop.State {
	held := got.Held
	if a.since.IsZero() || held.Holder != a.seen {
		a.seen, a.since = held.Holder, time.Now()
	} else if held.HeldFor == 0 && !got.Lingers {
		held.HeldFor = time.Since(a.since)
	}
	state := &waitloop.State{Held: *held, At: time.Now(), Within: a.Within, Changes: [2]time.Duration{-1, -1}}
	if len(a.Claims) > 1 {
		state.Within = max(min(a.Within, a.TTL/3), time.Millisecond) // it keeps what the set holds already
	}
	switch {
	case held.RetryAfter == 0: // only the backend knows when the lease ends
	case held.Ahead == 0:
		state.Changes[0] = held.RetryAfter
	case a.Notice > 0:
		state.Changes[0] = held.RetryAfter + a.Notice
	}
	return state
}

// Enter implements [waitloop.Request]. The first question of a request that waits joins the queue.
func (a *Acquisition) Enter(context.Context) (queued bool) {
	a.over = make(chan struct{})
	return true
}

// Messages implements [waitloop.Request].
func (a *Acquisition) Messages() <-chan struct{} { return a.Wake }

// Accept implements [waitloop.Request].
func (a *Acquisition) Accept(struct{}) (Answer, bool) {
	if a.Granted == nil {
		return Answer{}, false
	}
	return a.Granted()
}

// Poll implements [waitloop.Request]: the store rings the bell.
func (a *Acquisition) Poll() (pause time.Duration, slept func()) { return 0, func() {} }

// Withdraw implements [waitloop.Request].
func (a *Acquisition) Withdraw(ctx context.Context) error {
	err, answered := a.run(ctx, a.keys(), a.withdraw, a.takeBack)
	if err == nil {
		return nil
	}
	if answered {
		a.takeBack()
	}
	return a.failure(err)
}

// withdraw ends everything that the request holds or waits for.
func (a *Acquisition) withdraw(ctx context.Context) error {
	_, err := a.Transact(ctx, Aim{Keys: a.keys(), Owner: a.Owner, Looks: true, Ends: true}, func(st *keystate.State) error { return st.Withdraw(a.Owner) })
	return err
}

func (a *Acquisition) takeBack() {
	if a.TakeBack != nil {
		a.TakeBack()
		return
	}
	a.Calls.Go(func() { a.Undo(time.Now().Add(max(a.TTL, a.Left))) })
}

// Undo withdraws what nobody wants any more. The backend may be out for a while, so it goes on until it has
// succeeded, or until over, when everything has run out by itself. It reports false if the store closes.
func (a *Acquisition) Undo(over time.Time) bool {
	return waitloop.Insist(a.Life, over, func() bool {
		err, answered := a.run(a.Life, a.keys(), a.withdraw, nil)
		return answered && err == nil
	})
}
