package natsstore

import (
	"context"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/casstore"
	"github.com/keyturn/keyturn/internal/keystate"
	"github.com/keyturn/keyturn/internal/waitloop"
)

// acquire carries out Acquire and Begin.
func (s *Store) acquire(ctx context.Context, r keystate.Request) (casstore.Answer, error) {
	a := &casstore.Acquisition{Store: &s.ops, Request: r, Notice: min(r.TTL, s.cfg.waiter)}
	a.Inbox = s.inbox.subject
	a.Question = func(ctx context.Context) (ans casstore.Answer, err error) {
		aim := casstore.Aim{Keys: driver.Keys(a.Claims), Owner: a.Owner, Looks: true, Waits: a.Wait}
		asked := a.Request
		asked.Linger = r.Linger && !r.Once && s.inbox.arrives()
		if a.Within = s.cfg.waiter / 3; s.inbox.hearing.deaf.Load() {
			a.Within = min(a.Within, deafPause)
		}
		_, err = s.transact(ctx, aim, func(t *tx) error {
			got, err := t.Acquire(&asked)
			if err == nil {
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
