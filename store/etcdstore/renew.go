package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/keyturn/keyturn/core/driver"
)

// Renew implements [driver.Store].
//
// A renewal reads who holds the claims, keeps their leases alive, and reads again. The second read is
// what proves it: it shows that the leases still belong to their owners, and that the leader which kept
// them alive was still the leader afterwards.
func (s *Store) Renew(ctx context.Context, grants []driver.Grant) []error {
	errs := make([]error, len(grants))
	if err := s.calls.Enter(); err != nil {
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	defer s.calls.Leave()
	var all []*renewal
	for i, g := range grants {
		if errs[i] = s.check(g.Owner, g.Claims, g.TTL); errs[i] == nil {
			all = append(all, &renewal{i: i, g: g})
		}
	}
	s.renew(ctx, all)
	for _, r := range all {
		errs[r.i] = failure("renew", r.g.Claims[0].Key, r.err)
	}
	return errs
}

// renewal is one grant of a Renew.
type renewal struct {
	i       int
	g       driver.Grant
	members []*member // of its claims, as of the last read
	term    uint64    // of raft, in the last read
	err     error
}

func (s *Store) renew(ctx context.Context, all []*renewal) {
	s.read(ctx, all)
	var plain []*renewal
	for _, r := range all {
		switch {
		case r.err != nil:
		case r.isPlain():
			plain = append(plain, r)
		default:
			r.err = s.renewApart(ctx, r)
		}
	}
	// Twice, because a leader may be elected in between.
	for range 2 {
		if plain = s.renewTogether(ctx, plain); len(plain) == 0 {
			return
		}
	}
	for _, r := range plain {
		r.err = errElection
	}
}

// errElection says that a renewal could not be proved.
var errElection = errors.New("etcd is electing a leader")

// isPlain reports whether r needs nothing but keep-alives: its claims have leases of its TTL, which
// keep nothing else.
func (r *renewal) isPlain() bool {
	for _, m := range r.members {
		if m.ttl() != r.g.TTL || m.term() != r.g.TTL || m.Set != len(r.g.Claims) {
			return false
		}
	}
	return true
}

// renewTogether renews plain leases, and returns those that were answered by a leader that may have
// been replaced.
func (s *Store) renewTogether(ctx context.Context, all []*renewal) (again []*renewal) {
	if len(all) == 0 {
		return nil
	}
	var ids []clientv3.LeaseID
	for _, r := range all {
		for _, m := range r.members {
			ids = append(ids, m.lease)
		}
	}
	slices.Sort(ids)
	answers, silence := s.beats.beat(ctx, slices.Compact(ids))
	before := make(map[*renewal][]*member, len(all))
	for _, r := range all {
		before[r] = r.members
	}
	s.read(ctx, all)
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
func (s *Store) proved(r *renewal, before []*member, answers map[clientv3.LeaseID]pulse, silence error) error {
	for i, m := range r.members {
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

// read looks up the members of all claims, and finds out which of the grants are lost.
func (s *Store) read(ctx context.Context, all []*renewal) {
	type claim struct {
		r *renewal
		driver.Claim
	}
	var claims []claim
	for _, r := range all {
		r.members, r.err = nil, nil
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
			case len(c.r.members) > 0 && c.r.term != answer.Header.RaftTerm:
				c.r.term = 0 // its claims were read in different terms, which proves nothing
			default:
				c.r.term = answer.Header.RaftTerm
			}
			if c.r.err != nil {
				continue
			}
			var m *member
			for _, kv := range answer.Responses[i].GetResponseRange().Kvs {
				if m, err = readMember(kv, c.r.g.Owner); err != nil {
					c.r.err = err
				}
			}
			if c.r.members = append(c.r.members, m); c.r.err == nil && !m.isOf(c.r.g, c.Claim) {
				c.r.err = s.lost(ctx, c.Key, c.r.g)
			}
		}
	}
}

// isOf reports whether m is what g's owner was granted for c, and has not released.
func (m *member) isOf(g driver.Grant, c driver.Claim) bool {
	return m != nil && !m.waits() && !m.Released && m.lease != clientv3.NoLease && g.Token != 0 && m.Token == g.Token && m.Mode == c.Mode &&
		!(g.Borrowed && (g.TTL > m.ttl() || g.HandOffs > m.Reserved))
}
