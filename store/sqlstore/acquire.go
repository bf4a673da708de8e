package sqlstore

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/waitloop"
)

// Acquire implements [driver.Store]. A claim on a key that the owner holds in another mode gets
// a [*driver.DeadlockError].
func (s *Store) Acquire(ctx context.Context, req driver.Request) (driver.Grant, error) {
	a, err := s.acquire(ctx, req, false)
	return a.grant, err
}

// acquisition is one call of Acquire or Begin.
type acquisition struct {
	s     *Store
	req   driver.Request
	once  bool          // a record serves as well as the lease
	asked bool          // at least once
	lost  atomic.Bool   // a question had no answer, and may still be under way; a withdrawal beside it reads this
	sent  bool          // a question may have been carried out, so something may be left behind
	tried bool          // one statement was not enough: a transaction comes next
	wake  waitloop.Bell // nil: it does not wait
	over  chan struct{} // of one that waits: closed when a question that nobody waits for is over
}

// answer is a grant or a record, or how the key is held.
type answer struct {
	grant  driver.Grant
	record *driver.Record
	held   *waitloop.State
}

func (s *Store) acquire(ctx context.Context, req driver.Request, once bool) (answer, error) {
	if err := driver.CheckLease(req.Owner, req.Claims, req.TTL); err != nil {
		return answer{}, err
	}
	if err := s.calls.Enter(); err != nil {
		return answer{}, err
	}
	defer s.calls.Leave()
	a := &acquisition{s: s, req: req, once: once}
	defer a.end()
	ans, err := waitloop.Run(ctx, waitloop.Terms{Wait: req.Wait, OnHeld: req.OnHeld, Life: s.life}, a)
	return ans, err
}

func (a *acquisition) end() {
	if a.wake != nil {
		a.s.places.leave(a.req.Owner)
	}
}

// Ask implements [waitloop.Request].
func (a *acquisition) Ask(ctx context.Context) (answer, *waitloop.State, error) {
	a.wake.Clear()
	key := a.req.Claims[0].Key
	if isPlain(a.req.Claims) && !a.asked {
		if a.s.together.enter() {
			defer a.s.together.leave()
		} else if g, ok, err := a.askTogether(ctx); ok || err != nil {
			return answer{grant: g}, nil, err
		}
	}
	ans, err, answered := do(ctx, a.s, a.s.room, driver.Keys(a.req.Claims), a.ask, a.late)
	switch {
	case !answered:
		// The question may still be carried out, and is undone afterwards.
		return answer{}, nil, &waitloop.Unanswered{Err: a.s.silence(ctx, "acquire", key), Over: a.over}
	case err == nil:
		return ans, ans.held, nil
	}
	if own := (*driver.DeadlockError)(nil); errors.As(err, &own) {
		return answer{}, nil, err // nothing to undo: the owner held it before
	}
	a.tidy()
	return answer{}, nil, failure("acquire", key, err)
}

// late is called when a question is over that nobody waits for any more.
func (a *acquisition) late() {
	if a.over != nil {
		close(a.over)
	}
	a.tidy()
}

// tidy undoes what questions may have left behind.
func (a *acquisition) tidy() {
	if a.sent {
		a.s.calls.Go(a.undo)
	}
}

// Enter implements [waitloop.Request]. The first question of a request that waits joins the
// queue.
func (a *acquisition) Enter(context.Context) (queued bool) {
	a.over = make(chan struct{})
	a.wake = a.s.places.join(a.req.Owner)
	return true
}

// Messages implements [waitloop.Request].
func (a *acquisition) Messages() <-chan struct{} { return a.wake }

// Accept implements [waitloop.Request]: a message only says that it is time to ask.
func (a *acquisition) Accept(struct{}) (answer, bool) { return answer{}, false }

// Poll implements [waitloop.Request]: one look of the process is for all that wait.
func (a *acquisition) Poll() (pause time.Duration, slept func()) { return 0, func() {} }

// Withdraw implements [waitloop.Request].
func (a *acquisition) Withdraw(ctx context.Context) error {
	_, err, answered := do(ctx, a.s, a.s.room, driver.Keys(a.req.Claims), a.withdraw, nil)
	switch {
	case !answered:
		a.s.calls.Go(a.undo)
		return a.s.silence(ctx, "acquire", a.req.Claims[0].Key)
	case err != nil:
		a.s.calls.Go(a.undo)
		return failure("acquire", a.req.Claims[0].Key, err)
	}
	return nil
}

// withdraw ends everything that the request holds or waits for.
func (a *acquisition) withdraw(ctx context.Context) (struct{}, error) {
	_, err := a.s.transact(ctx, driver.Keys(a.req.Claims), existing, func(t *tx) error {
		for _, l := range t.locks {
			if m := l.Find(a.req.Owner); m != nil {
				l.Remove(m)
			}
		}
		return nil
	})
	return struct{}{}, err
}

// undo withdraws what nobody wants any more. The database may be out for a while, so it goes on
// until it has succeeded, until everything has run out by itself, or until the store closes.
func (a *acquisition) undo() {
	over := time.Now().Add(max(a.req.TTL, a.s.cfg.waiterLease))
	withdrawn := func() bool {
		_, err, answered := do(a.s.life, a.s, a.s.room, driver.Keys(a.req.Claims), a.withdraw, nil)
		return answered && err == nil
	}
	done := waitloop.Insist(a.s.life, over, withdrawn)
	if !a.lost.Load() {
		return
	}
	// TCP may still deliver a question that was given up, also on a connection that was closed.
	for pause := time.Second; done && pause <= lateCopy && time.Now().Before(over); pause *= 2 {
		done = waitloop.Sleep(a.s.life, pause) && waitloop.Insist(a.s.life, over, withdrawn)
	}
}

// lateCopy is the longest pause between two looks for a question that arrives late. They go on for twice
// as long.
const lateCopy = 16 * time.Second

// ask asks once.
func (a *acquisition) ask(ctx context.Context) (ans answer, err error) {
	before := a.sent
	a.sent = true
	defer func() {
		if isLocked(err) { // it was not carried out
			a.sent = before
		}
		a.learn(err)
	}()
	if isPlain(a.req.Claims) && !a.tried {
		g, ok, err := a.short(ctx)
		if ok && err == nil { // a row may arrive although its commit failed
			a.asked = true
			return answer{grant: g}, nil
		}
		if isLocked(err) || err != nil && !passing(ctx, err) {
			return answer{}, err
		}
		a.asked, before = true, before || err != nil
		a.learn(err)
	}
	a.tried = false
	if a.looksFirst() {
		if ans, settled, err := a.look(ctx); settled || err != nil {
			return ans, err
		}
	}
	_, err = a.s.transact(ctx, driver.Keys(a.req.Claims), creating, func(t *tx) (err error) {
		ans, err = a.decide(t)
		return err
	})
	return ans, err
}

// learn notes that a question may arrive late.
func (a *acquisition) learn(err error) {
	if isLost(err) {
		a.lost.Store(true)
	}
}

// looksFirst reports whether the answer is probably one that changes nothing: a refusal, or a record.
func (a *acquisition) looksFirst() bool {
	return isPlain(a.req.Claims) && a.s.d != &sqlite && (!a.req.Wait || a.once && a.wake == nil)
}

// look asks without locking anything: a client that is stopped in a transaction keeps its rows locked.
// settled: the answer counts, because it changes nothing.
func (a *acquisition) look(ctx context.Context) (ans answer, settled bool, err error) {
	settled, err = a.s.peek(ctx, driver.Keys(a.req.Claims), func(t *tx) (err error) {
		ans, err = a.decide(t)
		return err
	})
	return ans, settled, err
}
