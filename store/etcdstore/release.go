package etcdstore

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/keyturn/keyturn/core/driver"
)

// Release implements [driver.Store].
func (s *Store) Release(ctx context.Context, g driver.Grant) error {
	if err := s.check(g.Owner, g.Claims, g.TTL); err != nil {
		return err
	}
	if g.Stay%time.Second != 0 || g.Stay < 0 {
		return &driver.OptionError{Option: "Stay", Value: g.Stay, Want: "whole seconds"}
	}
	if err := s.calls.Enter(); err != nil {
		return err
	}
	defer s.calls.Leave()
	var stay *lease
	if g.Stay > 0 {
		var err error
		if stay, err = s.leases.grant(ctx, g.Stay); err != nil {
			return failure("release", g.Claims[0].Key, err)
		}
	}
	var loss error   // of one of the claims; the others are released (R5)
	var idle *member // one of those that were released
	whole := 0
	err := inParts(g.Claims, func(claims []driver.Claim) error {
		var lost error
		var ended []*member
		err := s.transact(ctx, driver.Keys(claims), byHeart|ending, func(t *tx) error {
			lost, ended = nil, nil
			for i, l := range t.locks {
				m := l.members.Holding(g.Owner, g.Token)
				switch {
				case m == nil && !t.fresh:
					return errLook
				case m == nil:
					err := t.lost(claims[i].Key, g)
					if v := (verdict{}); !errors.As(err, &v) {
						return err
					}
					lost = err
				case g.Stay > 0:
					m.Released = true
					t.attach(m, stay, len(g.Claims))
				default:
					ended = append(ended, m)
					l.remove(m)
				}
			}
			return nil
		})
		if lost != nil && loss == nil {
			loss = lost
		}
		if whole += len(ended); len(ended) > 0 {
			idle = ended[0]
		}
		return err
	})
	if err != nil {
		return failure("release", g.Claims[0].Key, err)
	}
	if loss == nil && whole == len(g.Claims) {
		s.recycle(g, idle)
	}
	return failure("release", g.Claims[0].Key, loss)
}

// recycle puts the lease of a grant back whose claims were all released. It is worth it if the lease
// was renewed lately, and safe if nothing else is attached to it.
func (s *Store) recycle(g driver.Grant, m *member) {
	if g.Since.IsZero() || m.Set != len(g.Claims) || m.ttl() != g.TTL || m.term() != g.TTL {
		return
	}
	s.leases.put(&lease{id: m.lease, ttl: g.TTL, since: g.Since})
}

// forcedValue says why a lease was taken by force.
type forcedValue struct {
	Token  uint64 `json:"token"`
	Reason []byte `json:"reason,omitempty"`
}

// lost returns the error that says how g lost key: as a verdict, unless the question fails.
func (t *tx) lost(key string, g driver.Grant) error { return t.s.lost(t.ctx, key, g) }

func (s *Store) lost(ctx context.Context, key string, g driver.Grant) error {
	loss := &driver.LeaseLostError{Key: key, Token: g.Token, Reason: driver.LossTaken}
	r, err := s.client.Get(ctx, s.base(key)+forcedPart+g.Owner)
	if err != nil {
		return err
	}
	for _, kv := range r.Kvs {
		var why forcedValue
		if err := json.Unmarshal(kv.Value, &why); err != nil {
			return foreign(kv, err)
		}
		if g.Token == 0 || g.Token == why.Token {
			loss.Reason, loss.Detail = driver.LossForced, string(why.Reason)
		}
	}
	return verdict{loss}
}

const (
	// forcedFor is how long owners can learn why their lease was taken. They ask within a third of
	// their TTL; one that has not asked by then is gone.
	forcedFor = time.Hour
	// forcedAtOnce is how many leases one transaction takes by force.
	forcedAtOnce = 24
)

// ForceRelease implements [driver.Inspector]. Owners can learn the reason for an hour. If more than 24
// leases are to be ended, that takes several steps.
func (s *Store) ForceRelease(ctx context.Context, key, reason string, only ...driver.Holder) ([]driver.Holder, error) {
	if err := driver.ValidateKey(key); err != nil {
		return nil, err
	}
	if err := s.calls.Enter(); err != nil {
		return nil, err
	}
	defer s.calls.Leave()
	var ended []driver.Holder
	for {
		var some []driver.Holder
		var wants []want
		var more bool
		err := s.transact(ctx, []string{key}, look|ending, func(t *tx) error {
			l := t.locks[0]
			had, err := s.show(ctx, l)
			if err != nil {
				return err
			}
			some = driver.Named(had, only)
			if len(had) > 0 && len(some) == 0 && len(ended) == 0 {
				held := l.held(0)
				return verdict{&held}
			}
			if more = len(some) > forcedAtOnce; more && len(only) == 0 {
				only = some // those that come meanwhile are not meant
			}
			some = some[:min(len(some), forcedAtOnce)]
			note, err := s.shelf.lease(ctx, forcedFor)
			if err != nil {
				return err
			}
			wants = l.want()
			for _, h := range some {
				l.remove(l.members.Find(h.Owner))
				value := encode(forcedValue{Token: h.Token, Reason: []byte(reason)})
				t.also = append(t.also, clientv3.OpPut(s.base(key)+forcedPart+h.Owner, value, clientv3.WithLease(note)))
			}
			return nil
		})
		if err != nil {
			return nil, failure("force release", key, err)
		}
		s.send(wants)
		if ended = append(ended, some...); !more {
			return ended, nil
		}
	}
}
