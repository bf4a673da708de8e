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
		asked.Linger = r.Linger && !r.Once && s.inbox.arrives()
		_, err = s.transact(ctx, aim, func(t *tx) error {
			got, err := t.Acquire(&asked)
			if err == nil {
				a.Within = s.within(&t.State, a.Owner)
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

// within is the longest time until a waiter asks again: short if nobody tells it that its turn has come.
func (s *Store) within(t *keystate.State, owner string) time.Duration {
	within := s.cfg.waiter / 3
	if s.inbox.hearing.deaf.Load() || slices.ContainsFunc(t.Keys, func(k *keystate.Key) bool { return behindMute(k, owner) }) {
		return min(within, deafPause)
	}
	return within
}

// behindMute reports whether the one in front of owner can't send messages. A downgraded lease has no inbox either.
func behindMute(k *keystate.Key, owner string) bool {
	holders := k.Holders()
	mute := len(holders) > 0 && holders[0].Mode == driver.ModeExclusive && holders[0].Inbox == ""
	for _, w := range k.Waiters() {
		if w.Owner == owner {
			return mute
		}
		mute = w.Inbox == ""
	}
	return false
}
