package sqlstore

import (
	"context"

	"github.com/keyturn/keyturn/core/driver"
)

// Release implements [driver.Store].
func (s *Store) Release(ctx context.Context, g driver.Grant) error {
	if err := driver.CheckLease(g.Owner, g.Claims, g.TTL); err != nil {
		return err
	}
	if err := s.calls.Enter(); err != nil {
		return err
	}
	defer s.calls.Leave()
	short, before := isShort(g), false
	if short {
		if s.together.enter() {
			defer s.together.leave()
		} else {
			done, unsure, answered := s.releaseTogether(ctx, g)
			if !answered {
				return s.silence(ctx, "release", g.Claims[0].Key)
			}
			if done {
				return nil
			}
			short, before = false, unsure
		}
	}
	type result struct {
		unsure bool
		loss   error // of one of the claims; the others are released (R5)
	}
	res, err, answered := do(ctx, s, s.room, driver.Keys(g.Claims), func(ctx context.Context) (r result, err error) {
		if short {
			done, unsure, err := s.shortRelease(ctx, g)
			if done || isLocked(err) || err != nil && !passing(ctx, err) {
				r.unsure = before
				return r, err
			}
			before = before || unsure
		}
		unsure, err := s.transact(ctx, driver.Keys(g.Claims), existing, func(t *tx) error {
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
		before = before || unsure
		r.unsure = before
		return r, err
	}, nil)
	if err := s.conclude(ctx, "release", g.Claims[0].Key, answered, res.unsure, err); err != nil {
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
	m := l.Holding(g.Owner, g.Token)
	switch {
	case m == nil:
		return t.lost(key, g)
	case g.Stay > 0:
		m.flags |= released
		t.extend(m, g.Stay)
	default:
		l.Remove(m)
	}
	return nil
}
