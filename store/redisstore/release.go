package redisstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/waitloop"
	"github.com/keyturn/keyturn/store/redisstore/internal/script"
	"github.com/keyturn/keyturn/store/redisstore/internal/send"
)

// Release implements [driver.Store]. If the server does not answer before ctx ends, the error
// matches driver.ErrUnavailable, and the lease may or may not be released.
func (s *Store) Release(ctx context.Context, g driver.Grant) error {
	if err := driver.CheckLease(g.Owner, g.Claims, g.TTL); err != nil {
		return err
	}
	if err := s.calls.Enter(); err != nil {
		return err
	}
	defer s.calls.Leave()
	if g.Resent {
		defer s.calls.Go(func() { s.dropCopies(g.Owner, g.Claims, g.MinHold) })
	}
	if len(g.Claims) == 1 && g.MinHold == 0 {
		return s.end(ctx, g)
	}
	parts := s.releases(g.Owner, g.Claims, g.Token)
	if g.MinHold > 0 {
		for _, p := range parts {
			s.keys.MinHold(&p.Call, g, p.claims)
		}
	}
	if !s.sender.Await(ctx, nil, requests(parts)) {
		return &driver.UnavailableError{Op: "release", Err: silence(ctx)}
	}
	var all error
	for _, p := range parts {
		all = worse(all, released(p.Request, p.claims, g))
	}
	return all
}

// endings are reused, like acquisitions.
var endings = sync.Pool{New: func() any { return new(send.Request) }}

// end is Release for a lease that one request ends, as most are.
func (s *Store) end(ctx context.Context, g driver.Grant) error {
	r := endings.Get().(*send.Request)
	*r = send.Request{Wanted: g.Contended}
	s.keys.Release(&r.Call, g.Owner, g.Claims, g.Token)
	if !s.sender.Await(ctx, nil, r.Alone()) {
		return &driver.UnavailableError{Op: "release", Err: silence(ctx)} // r is still under way
	}
	defer endings.Put(r)
	return released(r, g.Claims, g)
}

// released returns the error for a release.
func released(r *send.Request, claims []driver.Claim, g driver.Grant) error {
	err := verdict(r, "release", claims, g)
	if r.Attempts.Possible() > 1 { // the client repeated a request whose reply was lost
		return driver.RepeatedRelease(g, err)
	}
	return err
}

// part is the request about some of the claims of a set.
type part struct {
	*send.Request
	claims []driver.Claim
}

// releases makes the requests that end everything that owner holds or waits for among claims.
// Token 0 means any token.
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

// verdict returns the error that the answer to a request about a lease stands for, if any.
func verdict(r *send.Request, op string, claims []driver.Claim, g driver.Grant) error {
	v, err := r.Verdict(len(claims))
	switch {
	case script.Says(err, "WRONGTYPE"):
		return lost(claims[0].Key, g) // another type is there now, so the lease is gone
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

// isTaken reports whether the lease does not belong to the owner, and was not taken by force.
func isTaken(err error) bool {
	var loss *driver.LeaseLostError
	return errors.As(err, &loss) && loss.Reason == driver.LossTaken
}

// undo takes owner out of the queues for claims, and ends what it holds of them, because nobody
// wants it any more. The network may be down for a while. So undo goes on until the server has
// answered, until everything has run out by itself after life, or until the store closes.
//
// The engine cannot do this, although it keeps its debts for as long. Only the store knows that
// the request was sent, and when it has returned. A release that overtook the request would
// find nothing.
func (s *Store) undo(owner string, claims []driver.Claim, life time.Duration) {
	left := s.releases(owner, claims, 0)
	waitloop.Insist(s.ctx, time.Now().Add(life), func() bool {
		left = s.tryRelease(owner, left)
		return len(left) == 0
	})
}

// tryRelease sends the releases once, and returns those that the server did not answer within
// tidyTimeout.
func (s *Store) tryRelease(owner string, parts []part) []part {
	ctx, cancel := context.WithTimeout(context.Background(), tidyTimeout)
	defer cancel()
	home := s.sender.Await(ctx, nil, requests(parts))
	var left []part
	for _, p := range parts {
		switch {
		case !home: // it is still under way, so a new request takes its place
			left = append(left, s.releases(owner, p.claims, 0)...)
		case !script.Answered(p.Err):
			left = append(left, p)
		}
	}
	return left
}
