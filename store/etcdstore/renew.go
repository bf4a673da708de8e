package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

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
	sure    bool      // the renewal has succeeded, or failed for good
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
	return m != nil && !m.waits() && !m.Released && g.Token != 0 && m.Token == g.Token && m.Mode == c.Mode &&
		!(g.Borrowed && (g.TTL > m.ttl() || g.HandOffs > m.Reserved))
}

// renewApart renews claims whose leases are not as they should be: they are shorter or longer than
// the TTL, because the request has waited or the TTL was changed, or they keep other claims as well.
func (s *Store) renewApart(ctx context.Context, r *renewal) error {
	if r.g.Borrowed {
		if enough, err := s.lasts(ctx, r); enough || err != nil {
			return err
		}
	}
	fresh, err := s.leases.grant(ctx, r.g.TTL)
	if err != nil {
		return err
	}
	for n := 0; ; n++ {
		moved, err := s.move(ctx, r, fresh)
		if moved || err != nil || n >= tries {
			return err
		}
		if s.read(ctx, []*renewal{r}); r.err != nil {
			return r.err
		}
	}
}

// lasts reports whether the claims of a borrowed grant last for its TTL anyway. The borrower must
// not move their end nearer, nor further than that.
func (s *Store) lasts(ctx context.Context, r *renewal) (bool, error) {
	for _, m := range r.members {
		left, err := s.client.TimeToLive(ctx, m.lease)
		if err != nil || time.Duration(left.TTL)*time.Second < r.g.TTL {
			return false, err
		}
	}
	return true, nil
}

// move attaches the claims of r to another lease. It reports false if somebody has changed one of
// them.
func (s *Store) move(ctx context.Context, r *renewal, to *lease) (bool, error) {
	i := 0
	err := inParts(r.g.Claims, func(claims []driver.Claim) error {
		var cmps []clientv3.Cmp
		var puts []clientv3.Op
		for _, c := range claims {
			m, name := *r.members[i], s.base(c.Key)+memberPart+r.g.Owner
			cmps = append(cmps, clientv3.Compare(clientv3.ModRevision(name), "=", m.mod))
			m.Lease, m.Set = int64(to.ttl/time.Second), len(r.g.Claims)
			if !r.g.Borrowed {
				m.TTL = int64(r.g.TTL / time.Second)
			}
			puts = append(puts, clientv3.OpPut(name, encode(m.memberValue), clientv3.WithLease(to.id)))
			i++
		}
		answer, err := s.client.Txn(ctx).If(cmps...).Then(puts...).Commit()
		if err == nil && !answer.Succeeded {
			err = errAgain
		}
		return err
	})
	if errors.Is(err, errAgain) {
		return false, nil
	}
	if err == nil {
		s.retire(r)
	}
	return err == nil, err
}

// retire ends leases to which nothing is attached any more.
func (s *Store) retire(r *renewal) {
	kept := make(map[clientv3.LeaseID]int)
	for _, m := range r.members {
		kept[m.lease]++
	}
	for _, m := range r.members {
		if kept[m.lease] == m.Set {
			old := &lease{id: m.lease, ttl: m.term()}
			s.calls.Go(func() { s.revoke(old) })
		}
		delete(kept, m.lease)
	}
}

// Downgrade implements [driver.Store].
func (s *Store) Downgrade(ctx context.Context, g driver.Grant) error {
	if err := s.check(g.Owner, g.Claims, g.TTL); err != nil {
		return err
	}
	if err := s.calls.Enter(); err != nil {
		return err
	}
	defer s.calls.Leave()
	fresh, err := s.leases.grant(ctx, g.TTL)
	if err == nil {
		err = inParts(g.Claims, func(claims []driver.Claim) error {
			_, err := s.transact(ctx, keysOf(claims), true, func(t *tx) error { return t.downgrade(g, claims, fresh) })
			return err
		})
	}
	return failure("downgrade", g.Claims[0].Key, err)
}

// downgrade makes exclusive claims shared ones, if they are to be, and gives all of them another term.
func (t *tx) downgrade(g driver.Grant, claims []driver.Claim, fresh *lease) error {
	for i, c := range claims {
		m := t.locks[i].holding(g.Owner, g.Token)
		was := c
		if m != nil && c.Mode == driver.ModeShared && m.Mode == driver.ModeExclusive {
			was.Mode = m.Mode
		}
		if !m.isOf(g, was) {
			return t.lost(c.Key, g)
		}
	}
	for i, c := range claims {
		l := t.locks[i]
		m := l.holding(g.Owner, g.Token)
		t.attach(m, fresh, len(g.Claims))
		m.TTL = int64(g.TTL / time.Second)
		if m.Mode != c.Mode {
			phase := l.place().Downgraded(time.Time{})
			m.Mode = c.Mode
			l.setPhase(phase)
			l.decided = true
		}
	}
	return nil
}
