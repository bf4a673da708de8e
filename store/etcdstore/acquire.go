package etcdstore

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
	s    *Store
	req  driver.Request
	once bool // a record serves as well as the lease

	hold  *lease // for what the request gets
	wait  *lease // for its place in the queue; it ends soon if the process dies
	signs []sign // of life, that no read has confirmed yet

	at       string       // the key that it waits for
	messages chan message // nil: it has not begun to wait
	watch    *watch
}

// sign is an answer to a keep-alive.
type sign struct {
	lease *lease
	sent  time.Time
	term  uint64
}

// answer is a grant or a record, or how the key is held.
type answer struct {
	grant  driver.Grant
	record *driver.Record
	held   *waitloop.State
	at     string // the key that the request waits for
	wants  []want // to send because of held

	crowded bool // it is in the queue, and has to ask again at once
}

func (s *Store) acquire(ctx context.Context, req driver.Request, once bool) (answer, error) {
	if err := s.check(req.Owner, req.Claims, req.TTL); err != nil {
		return answer{}, err
	}
	if err := s.calls.Enter(); err != nil {
		return answer{}, err
	}
	defer s.calls.Leave()
	a := &acquisition{s: s, req: req, once: once}
	defer a.end()
	return waitloop.Run(ctx, waitloop.Terms{Wait: req.Wait, OnHeld: req.OnHeld, Life: s.life}, a)
}

// end gives back what the request has not used.
func (a *acquisition) end() {
	a.watch.stop()
	for _, l := range []*lease{a.hold, a.wait} {
		if l != nil && !l.used {
			a.s.leases.put(l)
		}
	}
}

// Ask implements [waitloop.Request].
func (a *acquisition) Ask(ctx context.Context) (answer, *waitloop.State, error) {
	key := a.req.Claims[0].Key
	ans, err := a.ask(ctx)
	switch {
	case err == nil:
		a.s.send(ans.wants)
		if a.at = ans.at; ans.held != nil && a.messages != nil {
			a.look(a.at)
		}
		return ans, ans.held, nil
	case errors.Is(err, driver.ErrWouldDeadlock):
		return answer{}, nil, failure("acquire", key, err) // nothing to undo: the owner held it before
	}
	over := a.undo()
	if ctx.Err() != nil {
		return answer{}, nil, &waitloop.Unanswered{Err: failure("acquire", key, context.Cause(ctx)), Over: over}
	}
	return answer{}, nil, failure("acquire", key, err)
}

// Enter implements [waitloop.Request]. The first question of a request that waits joins the queue.
func (a *acquisition) Enter(context.Context) (queued bool) {
	a.messages = make(chan message, 1)
	a.look(a.at)
	return true
}

// Messages implements [waitloop.Request].
func (a *acquisition) Messages() <-chan message { return a.messages }

// Poll implements [waitloop.Request].
func (a *acquisition) Poll() (pause time.Duration, slept func()) { return 0, func() {} }

// Withdraw implements [waitloop.Request].
func (a *acquisition) Withdraw(ctx context.Context) error {
	a.watch.stop()
	if err := a.withdraw(ctx); err != nil {
		_ = a.undo()
		return failure("acquire", a.req.Claims[0].Key, err)
	}
	return nil
}

// withdraw ends everything that the request holds or waits for.
func (a *acquisition) withdraw(ctx context.Context) error {
	err := inParts(a.req.Claims, func(claims []driver.Claim) error {
		err := a.s.transact(ctx, driver.Keys(claims), look|ending, func(t *tx) error {
			for _, l := range t.locks {
				if m := l.members.Find(a.req.Owner); m != nil {
					l.remove(m)
				}
			}
			return nil
		})
		return err
	})
	if err == nil {
		for _, l := range []*lease{a.hold, a.wait} {
			if l != nil {
				l.used = false // nothing is attached to it any more
			}
		}
	}
	return err
}

// undo ends the leases of the request in the background, and with them whatever it has got or is
// still going to get: a transaction that arrives late fails, because it names a lease that does not
// exist. etcd may be out for a while, so undo goes on until it has succeeded, until the leases have
// run out by themselves, or until the store closes. Then it closes over.
func (a *acquisition) undo() (over <-chan struct{}) {
	leases, done := []*lease{a.hold, a.wait}, make(chan struct{})
	a.hold, a.wait = nil, nil
	a.s.calls.Go(func() {
		defer close(done)
		for _, l := range leases {
			if l != nil && l.used && !a.s.revoke(l) {
				return
			}
		}
	})
	return done
}

// revoke ends a lease, and reports false if the store closes before etcd has answered.
func (s *Store) revoke(l *lease) bool {
	return waitloop.Insist(s.life, time.Now().Add(l.ttl), func() bool {
		_, err := s.client.Revoke(s.life, l.id)
		return err == nil || isGone(err)
	})
}

// ask asks once.
func (a *acquisition) ask(ctx context.Context) (answer, error) {
	for n := 0; ; n++ {
		if err := a.live(ctx); err != nil {
			return answer{}, err
		}
		ans, err := a.decide(ctx)
		if err == nil && ans.crowded {
			continue
		}
		if !errors.Is(err, errGone) || n >= tries {
			return ans, err
		}
		// A lease has run out just now, or etcd has lost its data.
		a.hold, a.wait = nil, nil
		a.s.leases.forget()
	}
}

// live gives a sign of life of a request that waits: its leases last for another term.
func (a *acquisition) live(ctx context.Context) error {
	a.signs = nil
	for _, l := range []**lease{&a.wait, &a.hold} {
		if *l == nil || !(*l).used {
			continue
		}
		sent := time.Now()
		p, err := a.s.beats.one(ctx, (*l).id)
		if err != nil {
			return err
		}
		if p.alive {
			a.signs = append(a.signs, sign{*l, sent, p.term})
		} else {
			*l = nil // with its place in the queue, or with what it held
		}
	}
	return nil
}

// confirm takes the signs of life into account that etcd answered in the term of a later read. A
// leader that was replaced and has not noticed answers keep-alives, but no reads.
func (a *acquisition) confirm(t *tx) {
	for _, g := range a.signs {
		if t.fresh && g.term == t.term {
			g.lease.since = g.sent
		}
	}
}

// holding returns the lease for what the request gets.
func (a *acquisition) holding(ctx context.Context) (*lease, error) {
	return a.lease(ctx, &a.hold, a.req.TTL)
}

// waiting returns the lease for a place in the queue.
func (a *acquisition) waiting(ctx context.Context) (*lease, error) {
	return a.lease(ctx, &a.wait, min(a.req.TTL, a.s.cfg.waiterLease))
}

func (a *acquisition) lease(ctx context.Context, l **lease, ttl time.Duration) (*lease, error) {
	if *l == nil || !(*l).used && time.Since((*l).since) >= ttl/freshPart {
		taken, err := a.s.leases.take(ctx, ttl)
		if err != nil {
			return nil, err
		}
		*l = taken
	}
	return *l, nil
}
