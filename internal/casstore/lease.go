package casstore

import (
	"context"
	"errors"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/keystate"
)

// outcome is what came of a decision about a grant.
type outcome struct {
	record *keystate.Record
	unsure bool
	loss   error // of one of the claims, although others have changed
}

// Short is a quicker way than a transaction, for the most frequent cases. It is done, or leaves open whether
// it is (unsure). The error is one with which a transaction would fail, too.
type Short func(context.Context) (done, unsure bool, err error)

// about runs decide on the keys of a grant.
func (s *Store) about(ctx context.Context, name string, g *driver.Grant, a Aim, short Short, decide func(*keystate.State, *outcome) error) (outcome, error) {
	if err := s.Check(g.Owner, g.Claims, g.TTL); err != nil {
		return outcome{}, err
	}
	a.Keys, a.Owner, a.Grant = driver.Keys(g.Claims), g.Owner, g
	return call(ctx, s, name, a.Keys[0], a.Keys, func(ctx context.Context) (o outcome, err error) {
		if short != nil {
			done, unsure, err := short(ctx)
			a.Unsure = a.Unsure || unsure
			if done || err != nil {
				return outcome{unsure: a.Unsure}, err
			}
		}
		unsure, err := s.Transact(ctx, a, func(st *keystate.State) error {
			o.loss = nil
			return decide(st, &o)
		})
		a.Unsure = a.Unsure || unsure // also for the next attempt
		o.unsure = a.Unsure
		for _, err := range []error{o.loss, err} {
			if loss := (*driver.LeaseLostError)(nil); errors.As(err, &loss) {
				if err := s.Explain(ctx, g.Owner, loss); err != nil {
					return o, err
				}
			}
		}
		return o, err
	})
}

// Renew implements [driver.Store] for a backend that can't write several decisions at once: each is written
// by itself, and many are under way at a time.
func (s *Store) Renew(ctx context.Context, grants []driver.Grant) []error {
	errs := make([]error, len(grants))
	_ = Parallel(len(grants), func(i int) error {
		g := &grants[i]
		_, errs[i] = s.about(ctx, "renew", g, Aim{Looks: true}, nil, func(st *keystate.State, _ *outcome) error { return st.Renew(g) })
		return nil
	})
	return errs
}

// Downgrade implements [driver.Store].
func (s *Store) Downgrade(ctx context.Context, g driver.Grant) error {
	_, err := s.about(ctx, "downgrade", &g, Aim{}, nil, func(st *keystate.State, _ *outcome) error { return st.Downgrade(&g) })
	return err
}

// Release is Release of [driver.Store]. short may be nil.
func (s *Store) Release(ctx context.Context, g driver.Grant, short Short) error {
	o, err := s.about(ctx, "release", &g, Aim{Looks: true, Ends: true}, short, func(st *keystate.State, o *outcome) (err error) {
		o.loss, err = st.Release(&g)
		return err
	})
	if err == nil {
		err = o.loss
	}
	if err != nil && o.unsure {
		return driver.RepeatedRelease(g, err)
	}
	return err
}
