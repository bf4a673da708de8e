package redisstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"

	"github.com/keyturn/keyturn/core/driver"
)

// A step is what one of the owners of a rehearsal does.
type step struct {
	owner string // its last word; each rehearsal has owners of its own
	does  func(*Store, context.Context, driver.Request) error
	how   driver.Claim // without the key
}

// steps make the scripts run every command that they have, in each mode. A user who lacks one of
// them would otherwise pass a check, and hold leases, until somebody has to wait.
var steps = func() []step {
	exclusive, shared, permit := driver.Exclusive(""), driver.Shared(""), driver.Permit("", 2)
	return []step{
		{"a", (*Store).tries, exclusive},
		{"b", (*Store).tries, exclusive},
		{"b", (*Store).queues, exclusive},
		{"c", (*Store).queues, exclusive},
		{"c", (*Store).leaves, exclusive},
		{"a", (*Store).leaves, exclusive},
		{"b", (*Store).queues, exclusive}, // and has it
		{"b", (*Store).leaves, exclusive},

		{"a", (*Store).tries, shared},
		{"b", (*Store).tries, shared},
		{"b", (*Store).tries, shared}, // again
		{"c", (*Store).queues, exclusive},
		{"a", (*Store).leaves, shared},
		{"b", (*Store).leaves, shared},
		{"c", (*Store).queues, exclusive},
		{"c", (*Store).leaves, exclusive},

		{"a", (*Store).tries, permit},
		{"b", (*Store).tries, permit},
		{"c", (*Store).tries, permit},
		{"b", (*Store).leaves, permit},
		{"a", (*Store).leaves, permit},
	}
}()

// rehearse does with key what stores do with keys. Only errors matter: in which order waiters get in
// is for tests.
func (s *Store) rehearse(ctx context.Context, key string) error {
	// The first call of each script needs EVAL, and groups of requests MGET.
	lock := s.keys.Lock(key)
	if err := cmp.Or(s.client.Eval(ctx, "return 1", []string{lock}).Err(), s.client.MGet(ctx, lock).Err()); err != nil {
		return failure("check", key, err)
	}
	id := "check/" + rand.Text() + "/"
	for _, step := range steps {
		step.how.Key = key
		req := driver.Request{Owner: id + step.owner, Claims: []driver.Claim{step.how}, TTL: checkTimeout}
		if err := step.does(s, ctx, req); err != nil {
			for _, owner := range []string{"a", "b", "c"} {
				req.Owner = id + owner
				_ = s.leaves(ctx, req) // what stays expires
			}
			return err
		}
	}
	return nil
}

// tries asks once, without a place in the queue.
func (s *Store) tries(ctx context.Context, req driver.Request) error {
	return s.askOnce(ctx, req, false)
}

// queues gets in the queue, or asks again from there.
func (s *Store) queues(ctx context.Context, req driver.Request) error {
	return s.askOnce(ctx, req, true)
}

func (s *Store) askOnce(ctx context.Context, req driver.Request, getInLine bool) error {
	a := s.asks(req, false)
	defer a.end()
	_, err := a.ask(ctx, 0, getInLine)
	return err
}

// leaves releases the lease, or gives up the place in the queue.
func (s *Store) leaves(ctx context.Context, req driver.Request) error {
	err := s.Release(ctx, driver.Grant{Owner: req.Owner, Claims: req.Claims, TTL: req.TTL})
	if errors.Is(err, driver.ErrLeaseLost) {
		return nil
	}
	return err
}
