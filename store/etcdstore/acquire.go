package etcdstore

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/casstore"
	"github.com/keyturn/keyturn/internal/keystate"
	"github.com/keyturn/keyturn/internal/waitloop"
)

// acquisition is one call of Acquire or Begin.
type acquisition struct {
	casstore.Acquisition
	s *Store

	hold  *lease // for what the request gets
	wait  *lease // for its place in the queue; it ends soon if the process dies
	kept  *lease // the one of them that keeps what it was granted
	signs []sign // of life, that no read has confirmed yet

	waits   bool // it has asked before, and waits
	watch   *watch
	granted atomic.Pointer[entry] // what the watch has seen
}

// sign is an answer to a keep-alive.
type sign struct {
	lease *lease
	sent  time.Time
	term  uint64
}

func (s *Store) acquire(ctx context.Context, r keystate.Request) (ans casstore.Answer, err error) {
	a := &acquisition{s: s}
	// A request asks three times while the shortest of its leases lasts.
	a.Acquisition = casstore.Acquisition{
		Store: &s.ops, Request: r, Within: min(r.TTL, s.cfg.waiterLease) / 3, Question: a.ask, Granted: a.accept, TakeBack: a.takeBack,
	}
	a.Part = len(r.Claims) > keysPerTxn
	s.inbox.Serve(&s.ops, &a.Request)
	if r.Wait {
		a.Wake = waitloop.NewBell()
	}
	defer func() { a.end(err) }()
	return a.Run(ctx)
}

// end gives back the leases that keep nothing: those that no transaction has named, or all of them if the
// request has gone without a trace.
func (a *acquisition) end(err error) {
	a.watch.stop()
	for _, l := range []*lease{a.hold, a.wait} {
		if l != nil && (!l.used || errors.Is(err, driver.ErrHeld)) {
			a.s.leases.put(l)
		}
	}
}

// takeBack ends the leases of the request in the background, and with them whatever it has got or is
// still going to get: a transaction that arrives late fails, because it names a lease that does not
// exist. etcd may be out for a while, so it goes on until it has succeeded, until the leases have
// run out by themselves, or until the store closes.
func (a *acquisition) takeBack() {
	leases := []*lease{a.hold, a.wait}
	a.hold, a.wait = nil, nil
	a.Calls.Go(func() {
		for _, l := range leases {
			if l != nil && l.used && !a.s.revoke(l) {
				return
			}
		}
	})
}

// revoke ends a lease, and reports false if the store closes before etcd has answered.
func (s *Store) revoke(l *lease) bool {
	return waitloop.Insist(s.life, time.Now().Add(l.ttl), func() bool {
		_, err := s.client.Revoke(s.life, l.id)
		return err == nil || isGone(err)
	})
}

// ask asks once.
func (a *acquisition) ask(ctx context.Context) (casstore.Answer, error) {
	a.granted.Store(nil)
	for gone := 0; ; {
		if err := a.live(ctx); err != nil {
			return casstore.Answer{}, err
		}
		ans, err := a.decide(ctx)
		switch {
		case errors.Is(err, errAgain):
			continue
		case errors.Is(err, errGone) && gone < tries:
			// A lease has run out just now, or etcd has lost its data.
			gone++
			a.hold, a.wait = nil, nil
			a.s.leases.forget()
			continue
		case err == nil && ans.Held != nil && a.Wait:
			a.waits = true
			a.follow(ans.Held.Held.Key)
		}
		return ans, err
	}
}

// errAgain says that the request has joined the queue, or that a set has lost a part before it was granted.
var errAgain = errors.New("etcdstore: ask again")

// decide grants the claims, or says how they are held.
func (a *acquisition) decide(ctx context.Context) (casstore.Answer, error) {
	t := a.s.tx(ctx, casstore.Aim{Keys: driver.Keys(a.Claims), Owner: a.Owner, Records: a.Once, Waits: a.Wait})
	if t.leaseFor = a.leaseFor; !a.waits {
		t.recall()
	}
	var ans keystate.Answer
	var joins bool
	_, err := t.run(func(t *tx) (err error) {
		a.confirm(t)
		ans, err = t.Acquire(&a.Request)
		if joins = err == nil && t.crowded && a.isNew(ans); joins {
			// Readers and permit holders that come all the time would always be quicker. The
			// process that decides next finds this request in the queue, and lets it in.
			t.reset()
			t.Join(&a.Request)
		}
		return err
	})
	switch {
	case err != nil:
		return casstore.Answer{}, err
	case joins:
		return casstore.Answer{}, errAgain
	case ans.Record != nil, ans.Held != nil:
		return a.Answer(ans, time.Time{}), nil
	case a.Part && ans.Token == 0:
		ans.Token, err = a.seal(ctx, ans.Highest)
	}
	return casstore.Answer{Grant: a.grant(ans)}, err
}

// isNew reports whether the request is granted its only claim, and had nothing before.
func (a *acquisition) isNew(ans keystate.Answer) bool {
	return len(a.Claims) == 1 && ans.Held == nil && ans.Record == nil && ans.Member.Ref == nil
}

// seal grants a set that one transaction can't write: its claims get one token, which is greater than highest.
func (a *acquisition) seal(ctx context.Context, highest uint64) (token uint64, err error) {
	token, _ = driver.NextTokens(highest, time.Now(), 0)
	t := a.s.tx(ctx, casstore.Aim{Keys: driver.Keys(a.Claims), Owner: a.Owner})
	t.leaseFor = a.leaseFor
	t.recall()
	_, err = t.run(func(t *tx) error {
		sealed, err := t.Seal(&a.Request, token)
		if err == nil && sealed == 0 {
			return errAgain
		}
		token = sealed
		return err
	})
	return token, err
}

// leaseFor returns the lease that is to keep a member of the request. One that has waited for its only claim
// keeps the lease of its place in the queue for a while, so it needs no further transaction.
func (a *acquisition) leaseFor(t *tx, m *keystate.Member, was *entry) (*lease, error) {
	switch {
	case m.Waits:
		return a.lease(t.ctx, &a.wait, min(a.TTL, a.s.cfg.waiterLease))
	case len(a.Claims) == 1 && was != nil && a.waitedFor(was):
		a.kept = a.wait
		return nil, nil
	}
	l, err := a.lease(t.ctx, &a.hold, a.TTL)
	a.kept = l
	return l, err
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

// waitedFor reports whether e is kept by the lease of the place in the queue, and lasts for a while.
func (a *acquisition) waitedFor(e *entry) bool {
	return a.wait != nil && e.lease == a.wait.id && time.Since(a.wait.since) < a.wait.ttl*2/3
}

// brief is the age of a lease that counts as new.
const brief = 100 * time.Millisecond

// grant is what the caller gets. It counts from the moment before etcd was last asked to keep the lease.
func (a *acquisition) grant(ans keystate.Answer) driver.Grant {
	g := a.Grant(ans, a.kept.since)
	if g.Term = min(a.kept.ttl, a.TTL); a.kept.ttl >= a.TTL && time.Since(a.kept.since) < brief {
		g.Term = 0 // all of it is left
	}
	return g
}

// accept makes a grant of what the watch has seen.
func (a *acquisition) accept() (casstore.Answer, bool) {
	e := a.granted.Swap(nil)
	if e == nil || len(a.Claims) > 1 || !a.waitedFor(e) {
		return casstore.Answer{}, false
	}
	m := e.member()
	a.kept = a.wait
	return casstore.Answer{Grant: a.grant(keystate.Answer{Token: e.Token, Reserved: e.Reserved, Contended: e.Others, Member: &m})}, true
}

// live gives a sign of life of a request that waits: its leases last for another term.
func (a *acquisition) live(ctx context.Context) error {
	a.signs = nil
	for _, l := range []**lease{&a.wait, &a.hold} {
		if *l == nil || !(*l).used {
			continue
		}
		sent := time.Now()
		answers, err := a.s.keepAlives.extend(ctx, []clientv3.LeaseID{(*l).id})
		if err != nil {
			return err
		}
		if k := answers[(*l).id]; k.alive {
			a.signs = append(a.signs, sign{*l, sent, k.term})
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
