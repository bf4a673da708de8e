package sqlstore

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/casstore"
	"github.com/keyturn/keyturn/internal/keystate"
	"github.com/keyturn/keyturn/internal/waitloop"
)

// acquisition is one call of Acquire or Begin.
type acquisition struct {
	casstore.Acquisition
	s     *Store
	asked bool // at least once
	tried bool // one statement was not enough: a transaction comes next

	// A withdrawal reads these beside a question that had no answer and is still under way.
	lost atomic.Bool // a question may arrive late
	sent atomic.Bool // a question may have been carried out, so something may be left behind
}

func (s *Store) acquire(ctx context.Context, r keystate.Request) (casstore.Answer, error) {
	a := &acquisition{s: s}
	// The poll keeps the place in the queue alive, and tells those behind the first of their turn.
	a.Acquisition = casstore.Acquisition{Store: &s.ops, Request: r, Within: 10 * s.cfg.waiterLease, Question: a.ask, TakeBack: a.takeBack}
	a.Inbox = s.inbox()
	a.Linger = a.mayLinger()
	defer func() {
		if a.Wake != nil {
			s.waiters.leave(a.Owner)
		}
	}()
	ans, err := waitloop.Run(ctx, waitloop.Terms{Wait: r.Wait, OnHeld: r.OnHeld, Life: s.life}, a)
	if err == nil {
		s.sweepOnce(r.Claims[0].Key)
	}
	return ans, err
}

// Ask implements [waitloop.Request].
func (a *acquisition) Ask(ctx context.Context) (casstore.Answer, *waitloop.State, error) {
	if isPlain(a.Claims) && !a.asked {
		if a.s.batcher.Enter() {
			defer a.s.batcher.Leave()
		} else if g, ok, err := a.askBatched(ctx); ok || err != nil {
			return casstore.Answer{Grant: g}, nil, err
		}
	}
	return a.Acquisition.Ask(ctx)
}

// Enter implements [waitloop.Request].
func (a *acquisition) Enter(ctx context.Context) (queued bool) {
	a.Wake = a.s.waiters.join(a.Owner)
	return a.Acquisition.Enter(ctx)
}

// takeBack undoes what questions may have left behind.
func (a *acquisition) takeBack() {
	if a.sent.Load() {
		a.s.calls.Go(a.undo)
	}
}

// undo withdraws what nobody wants any more.
func (a *acquisition) undo() {
	over := time.Now().Add(max(a.TTL, a.Left))
	done := a.Undo(over)
	if !a.lost.Load() {
		return
	}
	// TCP may still deliver a question that was given up, also on a connection that was closed.
	for pause := time.Second; done && pause <= lateCopy && time.Now().Before(over); pause *= 2 {
		done = waitloop.Sleep(a.s.life, pause) && a.Undo(over)
	}
}

// lateCopy is the longest pause between two withdrawals of a question that arrives late. They go on for twice
// as long.
const lateCopy = 16 * time.Second

// ask asks once.
func (a *acquisition) ask(ctx context.Context) (ans casstore.Answer, err error) {
	before := a.sent.Swap(true)
	defer func() {
		if isLocked(err) { // it was not carried out
			a.sent.Store(before)
		}
		a.learn(err)
	}()
	if isPlain(a.Claims) && !a.tried {
		g, ok, err := a.short(ctx)
		if ok && err == nil { // a row may arrive although its commit failed
			a.asked = true
			return casstore.Answer{Grant: g}, nil
		}
		if isLocked(err) || err != nil && !passing(ctx, err) {
			return casstore.Answer{}, err
		}
		a.asked, before = true, before || err != nil
		a.learn(err)
	}
	a.tried = false
	aim := casstore.Aim{Keys: driver.Keys(a.Claims), Records: a.Once}
	decide := func(t *tx) error {
		got, err := t.Acquire(&a.Request)
		if err == nil {
			ans = a.Answer(got, t.sent)
		}
		return err
	}
	if a.peeksFirst() {
		if settled, err := a.s.peek(ctx, aim, decide); settled {
			return ans, err
		}
	}
	_, err = a.s.transact(ctx, aim, creating, decide)
	return ans, err
}

// learn notes that a question may arrive late.
func (a *acquisition) learn(err error) {
	if isLost(err) {
		a.lost.Store(true)
	}
}

// peeksFirst reports whether the answer is probably one that changes nothing: a refusal, or a record.
func (a *acquisition) peeksFirst() bool {
	return isPlain(a.Claims) && a.s.d != &sqlite && (!a.Wait || a.Once && a.Wake == nil)
}
