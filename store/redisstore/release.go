package redisstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
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
	if isPlain(g.Claims) {
		return s.end(ctx, g)
	}
	parts := s.releases(g.Owner, g.Claims, g.Token)
	if !s.await(ctx, nil, requests(parts)) {
		return &driver.UnavailableError{Op: "release", Err: silence(ctx)}
	}
	var all error
	for _, p := range parts {
		all = worse(all, p.released(p.claims, g))
	}
	return all
}

// endings are kept for others, as askings are.
var endings = sync.Pool{New: func() any { return new(request) }}

// end is Release by a plain request.
func (s *Store) end(ctx context.Context, g driver.Grant) error {
	r := endings.Get().(*request)
	*r = ending(g.Owner, g.Claims, g.Token)
	if !s.await(ctx, nil, r.alone()) {
		return &driver.UnavailableError{Op: "release", Err: silence(ctx)} // r is still under way
	}
	defer endings.Put(r)
	return r.released(g.Claims, g)
}

// ending is the plain request that ends what owner has.
func ending(owner string, claims []driver.Claim, token uint64) request {
	return request{script: releaseScript, brief: brief{key: claims[0].Key, owner: owner, number: int64(token)}}
}

// released is the verdict on a release.
func (r *request) released(claims []driver.Claim, g driver.Grant) error {
	err := r.verdict("release", claims, g)
	if r.wire.possible() > 1 && isTaken(err) {
		// The client repeats a request whose reply was lost. So it says "not
		// yours" now because the first attempt released it.
		return nil
	}
	return err
}

// part is the request about some of the claims of a set.
type part struct {
	*request
	claims []driver.Claim
}

// releases makes the requests that end whatever owner has, or waits for, among
// claims. Token 0 means any.
func (s *Store) releases(owner string, claims []driver.Claim, token uint64) []part {
	if isPlain(claims) {
		r := ending(owner, claims, token)
		return []part{{&r, claims}}
	}
	groups := s.keys.groups(claims)
	parts := make([]part, len(groups))
	for i, group := range groups {
		parts[i] = part{s.request(new(request), releaseScript, owner, group, token), group}
	}
	return parts
}

func requests(parts []part) []*request {
	if len(parts) == 1 {
		return parts[0].alone()
	}
	reqs := make([]*request, len(parts))
	for i, p := range parts {
		reqs[i] = p.request
	}
	return reqs
}

// verdict reads the answer of a script that says whether the lease was the
// owner's: 1, or which claim was not, and perhaps why.
func (r *request) verdict(op string, claims []driver.Claim, g driver.Grant) error {
	switch {
	case says(r.err, "WRONGTYPE"):
		return lost(claims[0].Key, g) // whatever is there now, it is not the lease
	case r.err != nil:
		return failure(op, claims[0].Key, r.err)
	}
	switch answer := r.value.(type) {
	case int64:
		if err := r.confirmed(); err != nil {
			return failure(op, claims[0].Key, err)
		}
		return nil
	case []any:
		if len(answer) == 0 {
			break
		}
		i, ok := answer[0].(int64)
		if !ok || i < 0 || int(i) >= len(claims) {
			break
		}
		if len(answer) == 1 {
			return lost(claims[i].Key, g)
		}
		reason, _ := answer[1].(string)
		return &driver.LeaseLostError{Key: claims[i].Key, Token: g.Token, Reason: driver.LossForced, Detail: reason}
	}
	return failure(op, claims[0].Key, fmt.Errorf("%w: reply %.100v", ErrCorrupt, r.value))
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
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		left = s.tryRelease(owner, left)
		if len(left) == 0 || time.Now().After(over) || !sleep(s.ctx, pause) {
			return
		}
	}
}

// tryRelease sends what is to be released, and returns what the server did not answer
// within a while.
func (s *Store) tryRelease(owner string, parts []part) []part {
	ctx, cancel := context.WithTimeout(context.Background(), tidyTimeout)
	defer cancel()
	home := s.await(ctx, nil, requests(parts))
	var left []part
	for _, p := range parts {
		var answer redis.Error
		switch {
		case !home: // it is still under way, so others go in its place
			left = append(left, s.releases(owner, p.claims, 0)...)
		case p.err != nil && !errors.As(p.err, &answer):
			left = append(left, p)
		}
	}
	return left
}
