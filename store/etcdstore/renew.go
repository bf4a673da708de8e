package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/casstore"
	"github.com/keyturn/keyturn/internal/keystate"
)

// Renew implements [driver.Store].
//
// A renewal reads who holds the claims, keeps their leases alive, and reads again. The second read is
// what proves it: it shows that the leases still belong to their owners, and that the leader which kept
// them alive was still the leader afterwards.
func (s *Store) Renew(ctx context.Context, grants []driver.Grant) []error {
	if err := s.calls.Enter(); err != nil {
		return slices.Repeat([]error{err}, len(grants))
	}
	defer s.calls.Leave()
	errs := make([]error, len(grants))
	var all []*renewal
	for i, g := range grants {
		if errs[i] = s.check(g.Owner, g.Claims, g.TTL); errs[i] == nil {
			all = append(all, &renewal{i: i, g: g})
		}
	}
	s.renew(ctx, all)
	for _, r := range all {
		if errs[r.i] = r.err; r.err != nil && !casstore.IsAnswer(r.err) {
			errs[r.i] = s.failure("renew", r.g.Claims[0].Key, r.err)
		}
	}
	return errs
}

// renewal is one grant of a Renew.
type renewal struct {
	i       int
	g       driver.Grant
	entries []*entry // of its claims, as of the last read
	term    uint64   // of raft, in the last read
	err     error
}

func (s *Store) renew(ctx context.Context, all []*renewal) {
	s.readClaims(ctx, all)
	var regular []*renewal
	for _, r := range all {
		switch {
		case r.err != nil:
		case r.isRegular():
			regular = append(regular, r)
		default:
			r.err = s.reattach(ctx, r)
		}
	}
	// Twice, because a leader may be elected in between.
	for range 2 {
		if regular = s.keepAlive(ctx, regular); len(regular) == 0 {
			return
		}
	}
	for _, r := range regular {
		r.err = errElection
	}
}

// errElection says that a renewal could not be proved.
var errElection = errors.New("etcd is electing a leader")

// isRegular reports whether r needs nothing but keep-alives: its claims have leases of its TTL, which
// keep nothing else.
func (r *renewal) isRegular() bool {
	for _, m := range r.entries {
		if m.ttl() != r.g.TTL || m.term() != r.g.TTL || m.Set != len(r.g.Claims) {
			return false
		}
	}
	return true
}

// keepAlive renews regular leases, and returns those that were answered by a leader that may have
// been replaced.
func (s *Store) keepAlive(ctx context.Context, all []*renewal) (again []*renewal) {
	if len(all) == 0 {
		return nil
	}
	var ids []clientv3.LeaseID
	for _, r := range all {
		for _, m := range r.entries {
			ids = append(ids, m.lease)
		}
	}
	slices.Sort(ids)
	answers, silence := s.keepAlives.extend(ctx, slices.Compact(ids))
	before := make(map[*renewal][]*entry, len(all))
	for _, r := range all {
		before[r] = r.entries
	}
	s.readClaims(ctx, all)
	for _, r := range all {
		if r.err != nil {
			continue
		}
		verdict := s.proved(r, before[r], answers, silence)
		if errors.Is(verdict, errElection) {
			again = append(again, r)
		} else {
			r.err = verdict
		}
	}
	return again
}

// proved returns nil if the leases of r have been kept alive.
func (s *Store) proved(r *renewal, before []*entry, answers map[clientv3.LeaseID]keptAlive, silence error) error {
	for i, m := range r.entries {
		p, answered := answers[before[i].lease]
		switch {
		case !answered:
			return fmt.Errorf("a keep-alive was not answered: %w", silence)
		case m.lease != before[i].lease, !p.alive, p.term != r.term:
			return errElection
		}
	}
	return nil
}

// gets is how many keys are read at once.
const gets = 100

// readClaims looks up the members of all claims, and finds out which of the grants are lost.
func (s *Store) readClaims(ctx context.Context, all []*renewal) {
	type claim struct {
		r *renewal
		driver.Claim
	}
	var claims []claim
	for _, r := range all {
		r.entries, r.err = nil, nil
		for _, c := range r.g.Claims {
			claims = append(claims, claim{r, c})
		}
	}
	for some := range slices.Chunk(claims, gets) {
		var ops []clientv3.Op
		for _, c := range some {
			ops = append(ops, clientv3.OpGet(s.base(c.Key)+memberPart+c.r.g.Owner))
		}
		answer, err := s.client.Txn(ctx).Then(ops...).Commit()
		for i, c := range some {
			switch {
			case c.r.err != nil:
			case err != nil:
				c.r.err = err
			case len(c.r.entries) > 0 && c.r.term != answer.Header.RaftTerm:
				c.r.term = 0 // its claims were read in different terms, which proves nothing
			default:
				c.r.term = answer.Header.RaftTerm
			}
			if c.r.err != nil {
				continue
			}
			var e *entry
			for _, kv := range answer.Responses[i].GetResponseRange().Kvs {
				e, c.r.err = readEntry(kv, c.r.g.Owner) // of this grant alone (N4)
			}
			if c.r.entries = append(c.r.entries, e); c.r.err == nil && !e.isOf(&c.r.g, c.Claim) {
				loss := keystate.Lost(&c.r.g, c.Key)
				if c.r.err = s.explain(ctx, c.r.g.Owner, loss); c.r.err == nil {
					c.r.err = loss
				}
			}
		}
	}
}

// isOf reports whether e is what g's owner was granted for c, and has not released.
func (e *entry) isOf(g *driver.Grant, c driver.Claim) bool {
	if e == nil || e.lease == clientv3.NoLease {
		return false
	}
	m := e.member()
	return keystate.Renewable(&m, g, c)
}
