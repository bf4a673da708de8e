package sqlstore

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/keyturn/keyturn/core/driver"
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
			s.renewTogether(ctx, grants, batch, errs)
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

// renewTogether renews a batch of plain leases with one statement. What it leaves undone, transactions
// decide.
func (s *Store) renewTogether(ctx context.Context, grants []driver.Grant, batch []int, errs []error) {
	these := make([]driver.Grant, len(batch))
	for n, i := range batch {
		these[n] = grants[i]
	}
	renewed, err, answered := do(ctx, s, s.renewals, nil, func(ctx context.Context) ([]bool, error) { return s.renewPlainly(ctx, these) }, nil)
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
// locked: one of them would keep all leases from being renewed. Leases on such keys follow, each alone.
func (s *Store) renew(ctx context.Context, grants []driver.Grant, batch []int, errs []error) {
	s.renewIn(ctx, skipping, grants, batch, errs)
	for _, i := range batch {
		if errors.Is(errs[i], errSkipped) {
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
	room, waitsFor := s.renewals, []string(nil)
	if mode == existing {
		room, waitsFor = s.room, keys
	}
	verdicts, err, answered := try(ctx, s, room, waitsFor, func(ctx context.Context) ([]error, error) {
		verdicts := make([]error, len(batch))
		_, err := s.transact(ctx, keys, mode, func(t *tx) error {
			for n, i := range batch {
				err := t.renew(grants[i])
				if verdicts[n] = err; err != nil && !isVerdict(err, &verdicts[n]) {
					return err
				}
			}
			return nil
		})
		return verdicts, err
	}, nil)
	for n, i := range batch {
		switch {
		case !answered:
			errs[i] = s.silence(ctx, "renew", grants[i].Claims[0].Key)
		case err != nil:
			errs[i] = failure("renew", grants[i].Claims[0].Key, err)
		default:
			errs[i] = verdicts[n]
		}
	}
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

// renew extends all claims of g, or none.
func (t *tx) renew(g driver.Grant) error {
	if t.skips(g.Claims) {
		return verdict{errSkipped}
	}
	members, err := t.mine(g, func(_ *lock, m *member, c driver.Claim) bool {
		return !m.is(released) && g.Token != 0 && m.mode == c.Mode &&
			!(g.Borrowed && (toMicros(g.TTL) > m.ttl || g.HandOffs > m.reserved))
	})
	if err != nil {
		return err
	}
	for _, m := range members {
		if g.Borrowed {
			m.until = max(m.until, t.now+toMicros(g.TTL))
		} else {
			t.extend(m, g.TTL)
		}
	}
	return nil
}

// Downgrade implements [driver.Store].
func (s *Store) Downgrade(ctx context.Context, g driver.Grant) error {
	return s.about(ctx, "downgrade", g, s.renewals, func(t *tx) error {
		isDowngrade := func(m *member, c driver.Claim) bool {
			return m.mode == driver.ModeExclusive && c.Mode == driver.ModeShared
		}
		members, err := t.mine(g, func(_ *lock, m *member, c driver.Claim) bool {
			return !m.is(released) && g.Token != 0 && (m.mode == c.Mode || isDowngrade(m, c))
		})
		if err != nil {
			return err
		}
		for i, m := range members {
			t.extend(m, g.TTL)
			if c := g.Claims[i]; isDowngrade(m, c) {
				l := t.lock(c.Key)
				m.mode, l.Phase = c.Mode, l.Downgraded()
				m.inbox = "" // a shared lease does not linger
			}
		}
		return nil
	})
}

// about runs decide in a transaction on the keys of a grant.
func (s *Store) about(ctx context.Context, op string, g driver.Grant, room *room, decide func(*tx) error) error {
	if err := driver.CheckLease(g.Owner, g.Claims, g.TTL); err != nil {
		return err
	}
	if err := s.calls.Enter(); err != nil {
		return err
	}
	defer s.calls.Leave()
	unsure, err, answered := do(ctx, s, room, driver.Keys(g.Claims), func(ctx context.Context) (bool, error) {
		return s.transact(ctx, driver.Keys(g.Claims), existing, decide)
	}, nil)
	return s.conclude(ctx, op, g.Claims[0].Key, answered, unsure, err)
}

// conclude makes the caller's error of what came of a transaction.
func (s *Store) conclude(ctx context.Context, op, key string, answered, _ bool, err error) error {
	switch {
	case !answered:
		return s.silence(ctx, op, key)
	case err == nil, errors.Is(err, driver.ErrLeaseLost), errors.Is(err, driver.ErrHeld), errors.Is(err, driver.ErrResultNotKept):
		return err
	}
	return failure(op, key, err)
}
