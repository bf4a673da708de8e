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

// renewal is a grant of a Renew, with its answer.
type renewal struct {
	driver.Grant
	err error
}

// Renew implements [driver.Store].
func (s *Store) Renew(ctx context.Context, grants []driver.Grant) []error {
	if err := s.calls.Enter(); err != nil {
		return slices.Repeat([]error{err}, len(grants))
	}
	defer s.calls.Leave()
	all := make([]renewal, len(grants))
	plain := make(map[time.Duration][]*renewal) // by TTL
	var others []*renewal
	for i, g := range grants {
		r := &all[i]
		r.Grant = g
		switch r.err = driver.CheckLease(r.Owner, r.Claims, r.TTL); {
		case r.err != nil:
		case isPlain(r.Claims) && r.Token != 0 && !r.Borrowed:
			plain[r.TTL] = append(plain[r.TTL], r)
		default:
			others = append(others, r)
		}
	}
	for _, same := range plain {
		for batch := range slices.Chunk(same, claimsPerRenewal) {
			s.renewPlain(ctx, batch)
		}
	}
	var batch []*renewal
	claims := 0
	for _, r := range others {
		if claims > 0 && claims+len(r.Claims) > claimsPerRenewal {
			s.renew(ctx, batch)
			batch, claims = nil, 0
		}
		batch, claims = append(batch, r), claims+len(r.Claims)
	}
	s.renew(ctx, batch)
	errs := make([]error, len(grants))
	for i, r := range all {
		errs[i] = r.err
	}
	return errs
}

// renewPlain renews a batch of plain leases with one statement. What it leaves undone, transactions
// decide.
func (s *Store) renewPlain(ctx context.Context, batch []*renewal) {
	var renewed map[*renewal]bool
	err, answered := s.do(ctx, s.renewals, nil, func(ctx context.Context) (err error) {
		renewed, err = s.renewStatement(ctx, batch)
		return err
	}, nil)
	if err == nil && answered { // rows may arrive although their commit failed
		batch = slices.DeleteFunc(batch, func(r *renewal) bool { return renewed[r] })
	}
	s.renew(ctx, batch)
}

// renew renews the grants of a batch in one transaction. It does not wait for rows that others have
// locked: one of them would keep all leases from being renewed. Leases on such keys follow, each alone, and
// so do all of them if a row can't be read (N4).
func (s *Store) renew(ctx context.Context, batch []*renewal) {
	if len(batch) == 0 {
		return
	}
	s.renewIn(ctx, skipping, batch)
	for _, r := range batch {
		if errors.Is(r.err, errSkipped) || len(batch) > 1 && errors.Is(r.err, errRow) {
			s.renewIn(ctx, existing, []*renewal{r})
		}
	}
}

// renewIn renews the grants of a batch in one transaction.
func (s *Store) renewIn(ctx context.Context, mode rowMode, batch []*renewal) {
	var keys []string
	for _, r := range batch {
		keys = append(keys, driver.Keys(r.Claims)...)
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
			for n, r := range batch {
				verdicts[n] = t.renew(&r.Grant)
			}
			return nil
		})
		for n, r := range batch {
			if loss := (*driver.LeaseLostError)(nil); err == nil && errors.As(verdicts[n], &loss) {
				err = s.explain(ctx, r.Owner, loss)
			}
		}
		return err
	}, nil)
	for n, r := range batch {
		key := r.Claims[0].Key
		switch {
		case answered && err == nil:
			r.err = verdicts[n]
		case errors.Is(err, ErrReplaced):
			r.err = keystate.Lost(&r.Grant, key)
		default:
			r.err = failure("renew", key, err)
		}
	}
}

// renew renews one grant of a batch. The batch may have several on the same keys.
func (t *tx) renew(g *driver.Grant) error {
	st := keystate.State{Now: t.Now, Rules: t.Rules}
	for _, c := range g.Claims {
		l := t.lock(c.Key)
		if l == nil {
			return errSkipped
		}
		st.Keys = append(st.Keys, l.Key)
	}
	err := st.Renew(g)
	t.Woken = append(t.Woken, st.Woken...)
	return err
}
