package etcdstore

import (
	"context"
	"errors"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// reattach renews claims whose leases are not as they should be: they are shorter or longer than
// the TTL, because the request has waited or the TTL was changed, or they keep other claims as well.
func (s *Store) reattach(ctx context.Context, r *renewal) error {
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
		switch {
		case moved || err != nil:
			return err
		case n >= tries:
			return errBusy
		}
		if s.readClaims(ctx, []*renewal{r}); r.err != nil {
			return r.err
		}
	}
}

// errBusy says that a renewal could not be written, because somebody changed its claims each time.
var errBusy = errors.New("somebody else changes the lease all the time")

// lasts reports whether the claims of a borrowed grant last for its TTL anyway. The borrower must
// not move their end nearer, nor further than that.
func (s *Store) lasts(ctx context.Context, r *renewal) (bool, error) {
	for _, e := range r.entries {
		left, err := s.client.TimeToLive(ctx, e.lease)
		if err != nil || time.Duration(left.TTL)*time.Second < r.g.TTL {
			return false, err
		}
	}
	return true, nil
}

// move attaches the claims of r to another lease, as many at a time as a transaction takes. It reports false
// if somebody has changed one of them. Nobody renews the lease that they had, so it soon runs out.
func (s *Store) move(ctx context.Context, r *renewal, to *lease) (bool, error) {
	i := 0
	for claims := range slices.Chunk(r.g.Claims, keysPerTxn) {
		var cmps []clientv3.Cmp
		var puts []clientv3.Op
		for _, c := range claims {
			e, name := r.entries[i], s.base(c.Key)+memberPart+r.g.Owner
			cmps = append(cmps, clientv3.Compare(clientv3.ModRevision(name), "=", e.mod))
			v := e.memberValue
			v.Lease, v.Set = int64(to.ttl/time.Second), len(r.g.Claims)
			if !r.g.Borrowed {
				v.TTL = int64(r.g.TTL / time.Second)
			}
			puts = append(puts, clientv3.OpPut(name, encode(v), clientv3.WithLease(to.id)))
			i++
		}
		answer, err := s.client.Txn(ctx).If(cmps...).Then(puts...).Commit()
		if err != nil || !answer.Succeeded {
			return false, err
		}
	}
	return true, nil
}
