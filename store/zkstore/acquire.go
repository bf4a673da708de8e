package zkstore

import (
	"context"
	"errors"
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
	s      *Store
	req    driver.Request
	id     string
	once   bool          // a record serves as well as the lease
	wake   waitloop.Bell // nil: it does not wait
	over   chan struct{} // of one that waits: closed when a question that nobody waits for is over
	began  time.Time
	asked  bool
	waited bool // it has had a place in the queue
	joined bool // with the present transaction
}

// answer is a grant or a record, or how the key is held.
type answer struct {
	grant  driver.Grant
	record *driver.Record
	held   *waitloop.State
	view   *view
	wants  []want // to send because of held
}

func (s *Store) acquire(ctx context.Context, req driver.Request, once bool) (answer, error) {
	if err := s.check(req.Owner, req.Claims, req.TTL); err != nil {
		return answer{}, err
	}
	if err := s.calls.Enter(); err != nil {
		return answer{}, err
	}
	defer s.calls.Leave()
	a := &acquisition{s: s, req: req, id: nodeID(req.Owner), once: once, began: time.Now()}
	if req.Wait {
		a.wake = waitloop.NewBell()
		s.places.join(a.wake)
		defer s.places.leave(a.wake)
	}
	return waitloop.Run(ctx, waitloop.Terms{Wait: req.Wait, OnHeld: req.OnHeld, Life: s.life}, a)
}

// Ask implements [waitloop.Request].
func (a *acquisition) Ask(ctx context.Context) (answer, *waitloop.State, error) {
	a.wake.Clear()
	ans, err, answered := do(ctx, a.s, a.ask, a.late)
	key := a.req.Claims[0].Key
	switch {
	case !answered:
		// The question may still be carried out, and is undone afterwards.
		return answer{}, nil, &waitloop.Unanswered{Err: silence(ctx, "acquire", key), Over: a.over}
	case err == nil:
		a.s.send(ans.wants)
		return ans, ans.held, nil
	}
	if own := (*driver.DeadlockError)(nil); errors.As(err, &own) {
		return answer{}, nil, own // nothing to undo: the owner held it before
	}
	a.s.calls.Go(a.undo)
	return answer{}, nil, failure("acquire", key, err)
}

// late is called when a question is over that nobody waits for any more.
func (a *acquisition) late() {
	if a.over != nil {
		close(a.over)
	}
	a.s.calls.Go(a.undo)
}

// Enter implements [waitloop.Request]. The first question of a request that waits joins the
// queue.
func (a *acquisition) Enter(context.Context) (queued bool) {
	a.over = make(chan struct{})
	return true
}

// Messages implements [waitloop.Request].
func (a *acquisition) Messages() <-chan struct{} { return a.wake }

// Accept implements [waitloop.Request]: a message only says that it is time to ask.
func (a *acquisition) Accept(struct{}) (answer, bool) { return answer{}, false }

// Poll implements [waitloop.Request]: the server tells of changes.
func (a *acquisition) Poll() (pause time.Duration, slept func()) { return 0, func() {} }

// Withdraw implements [waitloop.Request].
func (a *acquisition) Withdraw(ctx context.Context) error {
	_, err, answered := do(ctx, a.s, a.withdraw, func() { a.s.calls.Go(a.undo) })
	switch {
	case !answered:
		return silence(ctx, "acquire", a.req.Claims[0].Key)
	case err != nil:
		a.s.calls.Go(a.undo)
		return failure("acquire", a.req.Claims[0].Key, err)
	}
	return nil
}

// withdraw ends everything that the request holds or waits for.
func (a *acquisition) withdraw(ctx context.Context) (struct{}, error) {
	_, err := a.s.transact(ctx, aim{keys: driver.Keys(a.req.Claims), looks: true}, func(t *tx) error {
		for _, l := range t.locks {
			if m := l.Find(a.id); m != nil {
				l.remove(m)
			}
		}
		return nil
	})
	return struct{}{}, err
}

// undo withdraws what nobody wants any more. The servers may be out for a while, so it goes on
// until it has succeeded, until everything has run out by itself, or until the store closes. The
// session keeps the order: what was sent before is carried out before, or never.
func (a *acquisition) undo() {
	over := time.Now().Add(max(a.req.TTL, 2*a.s.cfg.session))
	waitloop.Insist(a.s.life, over, func() bool {
		_, err, answered := do(a.s.life, a.s, a.withdraw, nil)
		return answered && err == nil
	})
}

// patience is how long the request waits for a session.
func (a *acquisition) patience() time.Duration {
	if a.req.Wait {
		return max(a.s.cfg.session, patience)
	}
	return patience
}

// ask asks once. A request that waits asks again after it has joined the queue: what it read before
// may have changed by then, without anybody who knew of it. And it asks again if something has
// changed before the server had been asked to tell of changes.
func (a *acquisition) ask(ctx context.Context) (answer, error) {
	unsure := false
	if !a.asked && isPlain(a.req.Claims) {
		a.asked = true
		g, ok, unknown := a.short(ctx)
		if ok {
			return answer{grant: g}, nil
		}
		unsure = unknown
	}
	if g, ok := a.taken(ctx); ok {
		return answer{grant: g}, nil
	}
	for r := (retries{}); ; {
		a.joined = false
		var ans answer
		_, err := a.s.transact(ctx, aim{keys: driver.Keys(a.req.Claims), records: a.once, looks: !a.req.Wait, unsure: unsure, patience: a.patience()}, func(t *tx) (err error) {
			ans, err = a.decide(t)
			return err
		})
		if err != nil || ans.held == nil || !a.req.Wait {
			return ans, err
		}
		if a.waited = true; a.joined {
			continue
		}
		err = a.watch(ctx, ans.view)
		if err == nil {
			return ans, nil
		}
		if !r.again(ctx, err) {
			return answer{}, err
		}
	}
}
