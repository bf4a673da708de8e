package zkstore

import (
	"context"
	"slices"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/casstore"
	"github.com/keyturn/keyturn/internal/keystate"
)

// claimsPerRenewal is how many claims are renewed by one request. Each write waits for the disks of a
// majority, whether it renews one lease or a hundred.
const claimsPerRenewal = 100

// Renew implements [driver.Store].
func (s *Store) Renew(ctx context.Context, grants []driver.Grant) []error {
	if err := s.calls.Enter(); err != nil {
		return slices.Repeat([]error{err}, len(grants))
	}
	defer s.calls.Leave()
	errs := make([]error, len(grants))
	var batch []int
	claims := 0
	flush := func() {
		if len(batch) > 0 {
			s.renew(ctx, grants, batch, errs)
		}
		batch, claims = nil, 0
	}
	for i, g := range grants {
		if errs[i] = s.checkRenewal(g); errs[i] != nil {
			continue
		}
		if claims+len(g.Claims) > claimsPerRenewal {
			flush()
		}
		batch, claims = append(batch, i), claims+len(g.Claims)
	}
	flush()
	return errs
}

// checkRenewal refuses a grant that no Acquire returned.
func (s *Store) checkRenewal(g driver.Grant) error {
	if err := s.check(g.Owner, g.Claims, g.TTL); err != nil {
		return err
	}
	if g.Token == 0 {
		return &driver.LeaseLostError{Key: g.Claims[0].Key, Reason: driver.LossTaken}
	}
	return nil
}

// renew renews the grants of a batch with one request, and those that it fails for with another.
func (s *Store) renew(ctx context.Context, grants []driver.Grant, batch []int, errs []error) {
	verdicts, err, answered := casstore.Do(ctx, &s.ops, nil, func(ctx context.Context) ([]error, error) {
		r := &renewal{s: s, grants: make([]driver.Grant, len(batch)), verdicts: make([]error, len(batch)), done: make([]bool, len(batch))}
		for n, i := range batch {
			r.grants[n] = grants[i]
		}
		r.run(ctx)
		return r.verdicts, nil
	}, nil)
	for n, i := range batch {
		if answered {
			errs[i] = verdicts[n]
		} else {
			errs[i] = s.failure("renew", grants[i].Claims[0].Key, err)
		}
	}
}

// drop ends a lease that a renewal has brought back too late.
func (s *Store) drop(g driver.Grant) {
	_, _ = s.decide(s.life, casstore.Aim{Keys: driver.Keys(g.Claims)}, func(st *keystate.State) error { // otherwise it runs out
		_, err := st.Release(&driver.Grant{Owner: g.Owner, Claims: g.Claims, Token: g.Token})
		return err
	})
}
