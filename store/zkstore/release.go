package zkstore

import (
	"context"
	"errors"

	"github.com/keyturn/keyturn/core/driver"
)

// Release implements [driver.Store].
func (s *Store) Release(ctx context.Context, g driver.Grant) error {
	if err := s.check(g.Owner, g.Claims, g.TTL); err != nil {
		return err
	}
	if err := s.calls.Enter(); err != nil {
		return err
	}
	defer s.calls.Leave()
	type result struct {
		unsure bool
		loss   error // of one of the claims; the others are released (R5)
	}
	res, err, answered := do(ctx, s, func(ctx context.Context) (r result, err error) {
		done, unsure := s.shortRelease(ctx, g)
		if done {
			return r, nil
		}
		r.unsure, err = s.transact(ctx, aim{keys: driver.Keys(g.Claims), looks: true, unsure: unsure}, func(t *tx) error {
			r.loss = nil
			for _, c := range g.Claims {
				err := t.release(g, c.Key)
				if err != nil && !isVerdict(err, &err) {
					return err
				}
				if r.loss == nil {
					r.loss = err
				}
			}
			return nil
		})
		return r, err
	}, nil)
	if err := conclude(ctx, "release", g.Claims[0].Key, answered, err); err != nil {
		return err
	}
	if res.unsure {
		return driver.Repeated(g, res.loss)
	}
	return res.loss
}

// release ends g's lease on key, or lets it stay.
func (t *tx) release(g driver.Grant, key string) error {
	l := t.lock(key)
	m := l.Holding(nodeID(g.Owner), g.Token)
	switch {
	case m == nil:
		return t.lost(key, g)
	case g.Stay > 0:
		m.Released = true
		t.extend(m, g.Stay)
	default:
		l.remove(m)
	}
	return nil
}

// isVerdict reports whether err is for the caller, and sets to to it.
func isVerdict(err error, to *error) bool {
	var v verdict
	if errors.As(err, &v) {
		*to = v.error
		return true
	}
	return false
}
