package redisstore

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core"
)

// Release implements [core.Store]. If the server does not answer within ctx's
// bound the error matches core.ErrUnavailable, and the lease may or may not be
// released.
func (s *Store) Release(ctx context.Context, g core.Grant) error {
	key, err := check(g.Owner, g.Claims, g.TTL)
	if err != nil {
		return err
	}
	r := s.request(releaseScript, key, g.Owner)
	err = s.settle(ctx, "release", key, g, r)
	if errors.Is(err, core.ErrLeaseLost) && r.wire.possible() > 1 {
		// The client repeats a request whose reply was lost. So it says "not
		// yours" now because the first attempt released it.
		return nil
	}
	return err
}

// settle sends the request that ends a lease and reads the answer.
func (s *Store) settle(ctx context.Context, op, key string, g core.Grant, r *request) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if !s.await(ctx, nil, r) {
		return &core.UnavailableError{Op: op, Err: silence(ctx)}
	}
	return r.verdict(op, key, g)
}

// verdict reads the answer of a script that says whether the lease was the
// owner's.
func (r *request) verdict(op, key string, g core.Grant) error {
	mine, err := r.reply.Int()
	switch {
	case says(r.err, "WRONGTYPE"):
		return lost(key, g) // whatever is there now, it is not the lease
	case r.err != nil:
		return failure(op, key, r.err)
	case err != nil:
		return failure(op, key, err)
	case mine == 0:
		return lost(key, g)
	}
	return nil
}

// undo takes owner out of the line for key, or the lock from owner if it came
// to that, now that nobody wants it any more. The network that was in the way a
// moment ago may need one more; after some seconds, or when the store closes,
// the lease or the place in line is left to run out by itself.
func (s *Store) undo(key, owner string) {
	ctx, cancel := context.WithTimeout(context.Background(), tidyTimeout)
	defer cancel()
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		r := s.request(releaseScript, key, owner)
		if !s.await(ctx, nil, r) {
			return
		}
		var answer redis.Error
		if r.err == nil || errors.As(r.err, &answer) || !sleep(s.ctx, pause) {
			return
		}
	}
}
