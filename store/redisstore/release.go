package redisstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/redisstore/internal/script"
	"github.com/keyturn/keyturn/store/redisstore/internal/send"
)

// Release implements [driver.Store]. If the server does not answer within ctx's
// bound the error matches driver.ErrUnavailable, and the lease may or may not be
// released.
func (s *Store) Release(ctx context.Context, g driver.Grant) error {
	if err := check(g.Owner, g.Claims, g.TTL); err != nil {
		return err
	}
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if len(g.Claims) == 1 {
		return s.end(ctx, g)
	}
	parts := s.releases(g.Owner, g.Claims, g.Token)
	if !s.sender.Await(ctx, nil, requests(parts)) {
		return &driver.UnavailableError{Op: "release", Err: silence(ctx)}
	}
	var all error
	for _, p := range parts {
		all = worse(all, released(p.Request, p.claims, g))
	}
	return all
}

// endings are kept for others, as acquisitions are.
var endings = sync.Pool{New: func() any { return new(send.Request) }}

// end is Release of a lease that one request ends, as most are.
func (s *Store) end(ctx context.Context, g driver.Grant) error {
	r := endings.Get().(*send.Request)
	*r = send.Request{}
	s.keys.Release(&r.Call, g.Owner, g.Claims, g.Token)
	if !s.sender.Await(ctx, nil, r.Alone()) {
		return &driver.UnavailableError{Op: "release", Err: silence(ctx)} // r is still under way
	}
	defer endings.Put(r)
	return released(r, g.Claims, g)
}

// released is the verdict on a release.
func released(r *send.Request, claims []driver.Claim, g driver.Grant) error {
	err := verdict(r, "release", claims, g)
	if r.Attempts.Possible() > 1 && isTaken(err) && !runOut(g) {
		// The client repeats a request whose reply was lost. So it says "not
		// yours" now because the first attempt released it.
		return nil
	}
	return err
}

// runOut says that the lease may have ended by itself by now. Then nobody can tell whether
// an attempt without an answer released it, or never arrived and the key went to another.
// Of a grant that does not say since when it counts, nobody knows.
func runOut(g driver.Grant) bool {
	term := g.Term
	if term <= 0 {
		term = g.TTL
	}
	return !g.Since.IsZero() && time.Since(g.Since) >= term
}

// part is the request about some of the claims of a set.
type part struct {
	*send.Request
	claims []driver.Claim
}

// releases makes the requests that end whatever owner has, or waits for, among
// claims. Token 0 means any.
func (s *Store) releases(owner string, claims []driver.Claim, token uint64) []part {
	groups := s.keys.Groups(claims)
	parts := make([]part, len(groups))
	for i, group := range groups {
		parts[i] = part{new(send.Request), group}
		s.keys.Release(&parts[i].Call, owner, group, token)
	}
	return parts
}

func requests(parts []part) []*send.Request {
	if len(parts) == 1 {
		return parts[0].Alone()
	}
	reqs := make([]*send.Request, len(parts))
	for i, p := range parts {
		reqs[i] = p.Request
	}
	return reqs
}

// verdict is the error, if any, that the answer to a call about a lease amounts to.
func verdict(r *send.Request, op string, claims []driver.Claim, g driver.Grant) error {
	v, err := r.Verdict(len(claims))
	switch {
	case script.Says(err, "WRONGTYPE"):
		return lost(claims[0].Key, g) // whatever is there now, it is not the lease
	case err == nil && v.Forced:
		return &driver.LeaseLostError{Key: claims[v.Claim].Key, Token: g.Token, Reason: driver.LossForced, Detail: v.Reason}
	case err == nil && v.Lost:
		return lost(claims[v.Claim].Key, g)
	case err == nil:
		err = confirmed(r)
	}
	if err != nil {
		return failure(op, claims[0].Key, err)
	}
	return nil
}

// isTaken: the lease is not the owner's, and nobody says that it was robbed.
func isTaken(err error) bool {
	var loss *driver.LeaseLostError
	return errors.As(err, &loss) && loss.Reason == driver.LossTaken
}

// undo takes owner out of the lines for claims, and what it has of them from it,
// now that nobody wants it any more. The network that was in the way may be so for a
// while: undo goes on until the server has answered, until what there is has run out by
// itself, after life, or until the store closes.
//
// The engine keeps what it owes for as long, but could not do this: only the store
// knows that the request was sent, and when it is back. A release that overtook it would
// find nothing.
func (s *Store) undo(owner string, claims []driver.Claim, life time.Duration) {
	over := time.Now().Add(life)
	left := s.releases(owner, claims, 0)
	var pause send.Backoff
	for {
		left = s.tryRelease(owner, left)
		if len(left) == 0 || time.Now().After(over) || !pause.Pause(s.ctx) {
			return
		}
	}
}

// tryRelease sends what is to be released, and returns what the server did not answer
// within a while.
func (s *Store) tryRelease(owner string, parts []part) []part {
	ctx, cancel := context.WithTimeout(context.Background(), tidyTimeout)
	defer cancel()
	home := s.sender.Await(ctx, nil, requests(parts))
	var left []part
	for _, p := range parts {
		var answer redis.Error
		switch {
		case !home: // it is still under way, so others go in its place
			left = append(left, s.releases(owner, p.claims, 0)...)
		case p.Err != nil && !errors.As(p.Err, &answer):
			left = append(left, p)
		}
	}
	return left
}
