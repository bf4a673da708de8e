package natsstore

import (
	"context"
	"slices"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/casstore"
	"github.com/keyturn/keyturn/internal/keystate"
	"github.com/keyturn/keyturn/internal/waitloop"
)

// acquire carries out Acquire and Begin.
func (s *Store) acquire(ctx context.Context, r keystate.Request) (casstore.Answer, error) {
	a := &casstore.Acquisition{Store: &s.ops, Request: r, Notice: min(r.TTL, s.cfg.waiter)}
	a.Inbox = s.inbox.address()
	a.Question = func(ctx context.Context) (ans casstore.Answer, err error) {
		aim := casstore.Aim{Keys: driver.Keys(a.Claims), Owner: a.Owner, Looks: true, Waits: a.Wait}
		asked := a.Request
		asked.Linger = r.Linger && !r.Once && a.Inbox != "" && s.inbox.arrives()
		_, err = s.transact(ctx, aim, func(t *tx) error {
			got, err := t.Acquire(&asked)
			if err == nil {
				a.Within = s.within(t.Keys[got.At], &asked)
				ans = a.Answer(got, t.sent)
			}
			return err
		})
		return ans, err
	}
	if r.Wait {
		a.Wake = waitloop.NewBell()
		s.inbox.join(r.Owner, a.Wake)
		defer s.inbox.leave(r.Owner)
	}
	return a.Run(ctx)
}

// within is the longest time until a waiter asks again: short if nobody may tell it that its turn has come. Behind a
// process that can't send messages, the second waiter asks half as often as the first, and so on. Otherwise a long
// queue would keep the servers busy.
func (s *Store) within(k *keystate.Key, r *keystate.Request) time.Duration {
	within := s.cfg.waiter / 3
	if r.Inbox == "" || s.inbox.hearing.deaf.Load() {
		return min(within, deafPause)
	}
	mute := func(m *keystate.Member) bool { return m.Inbox == "" }
	pause := within
	if slices.ContainsFunc(k.Holders(), mute) { // it may be the last to go
		pause = deafPause
	}
	for _, w := range k.Waiters() {
		if w.Owner == r.Owner {
			break
		}
		if pause += deafPause; mute(w) {
			pause = deafPause
		}
	}
	return min(within, pause)
}
