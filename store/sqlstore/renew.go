package sqlstore

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/casstore"
	"github.com/keyturn/keyturn/internal/keystate"
)

// claimsPerRenewal is how many claims are renewed in one transaction, or by one statement.
const claimsPerRenewal = 500

// Renew implements [driver.Store].
func (s *Store) Renew(ctx context.Context, grants []driver.Grant) []error {
	if err := s.calls.Enter(); err != nil {
		return slices.Repeat([]error{err}, len(grants))
	}
	defer s.calls.Leave()
	errs := make([]error, len(grants))
	plain := make(map[time.Duration][]int) // indices of grants, by TTL
	var others []int
	for i, g := range grants {
		switch errs[i] = driver.CheckLease(g.Owner, g.Claims, g.TTL); {
		case errs[i] != nil:
		case isPlain(g.Claims) && g.Token != 0 && !g.Borrowed:
			plain[g.TTL] = append(plain[g.TTL], i)
		default:
			others = append(others, i)
		}
	}
	for _, same := range plain {
		for batch := range slices.Chunk(same, claimsPerRenewal) {
			s.renewPlain(ctx, grants, batch, errs)
		}
	}
	var batch []int
	claims := 0
	for _, i := range others {
		if n := len(grants[i].Claims); claims > 0 && claims+n > claimsPerRenewal {
			s.renew(ctx, grants, batch, errs)
			batch, claims = nil, 0
		}
		batch, claims = append(batch, i), claims+len(grants[i].Claims)
	}
	if len(batch) > 0 {
		s.renew(ctx, grants, batch, errs)
	}
	return errs
}

// renewPlain renews a batch of plain leases with one statement. What it leaves undone, transactions
// decide.
func (s *Store) renewPlain(ctx context.Context, grants []driver.Grant, batch []int, errs []error) {
	these := make([]driver.Grant, len(batch))
	for n, i := range batch {
		these[n] = grants[i]
	}
	var renewed []bool
	err, answered := s.do(ctx, s.renewals, nil, func(ctx context.Context) (err error) {
		renewed, err = s.renewStatement(ctx, these)
		return err
	}, nil)
	var rest []int
	for n, i := range batch {
		if err != nil || !answered || !renewed[n] {
			rest = append(rest, i)
		}
	}
	if len(rest) > 0 {
		s.renew(ctx, grants, rest, errs)
	}
}

// renew renews the grants of a batch in one transaction. It does not wait for rows that others have
// locked: one of them would keep all leases from being renewed. Leases on such keys follow, each alone, and
// so do all of them if a row can't be read (N4).
func (s *Store) renew(ctx context.Context, grants []driver.Grant, batch []int, errs []error) {
	s.renewIn(ctx, skipping, grants, batch, errs)
	for _, i := range batch {
		if errors.Is(errs[i], errSkipped) || len(batch) > 1 && errors.Is(errs[i], errRow) {
			s.renewIn(ctx, existing, grants, []int{i}, errs)
		}
	}
}

// renewIn renews the grants of a batch in one transaction.
func (s *Store) renewIn(ctx context.Context, mode rowMode, grants []driver.Grant, batch []int, errs []error) {
	var keys []string
	for _, i := range batch {
		keys = append(keys, driver.Keys(grants[i].Claims)...)
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	by, waitsFor := s.renewals, []string(nil)
	if mode == existing {
		by, waitsFor = s.workers, keys
	}
	verdicts := make([]error, len(batch))
	err, answered := s.try(ctx, by, waitsFor, func(ctx context.Context) error {
		_, err := s.transact(ctx, casstore.Aim{Keys: keys}, mode, func(t *tx) error {
			for n, i := range batch {
				verdicts[n] = t.renew(&grants[i])
			}
			return nil
		})
		return s.explainAll(ctx, grants, batch, verdicts, err)
	}, nil)
	for n, i := range batch {
		switch {
		case answered && err == nil:
			errs[i] = verdicts[n]
		case errors.Is(err, ErrReplaced):
			errs[i] = &driver.LeaseLostError{Key: grants[i].Claims[0].Key, Token: grants[i].Token, Reason: driver.LossTaken}
		default:
			errs[i] = failure("renew", grants[i].Claims[0].Key, err)
		}
	}
}

// explainAll finds out which of the leases of a batch were lost by force.
func (s *Store) explainAll(ctx context.Context, grants []driver.Grant, batch []int, verdicts []error, err error) error {
	for n, i := range batch {
		if loss := (*driver.LeaseLostError)(nil); err == nil && errors.As(verdicts[n], &loss) {
			err = s.explain(ctx, grants[i].Owner, loss)
		}
	}
	return err
}

// renew renews one grant of a batch. The batch may have several on the same keys.
func (t *tx) renew(g *driver.Grant) error {
	st := keystate.State{Now: t.Now, Rules: t.Rules}
	for _, c := range g.Claims {
		if t.skipped[c.Key] {
			return errSkipped
		}
		st.Keys = append(st.Keys, t.lock(c.Key).Key)
	}
	err := st.Renew(g)
	t.Woken = append(t.Woken, st.Woken...)
	return err
}
