package casstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/keystate"
)

// Inspect is Inspect of [driver.Inspector].
func (s *Store) Inspect(ctx context.Context, key string) (driver.LockInfo, error) {
	if err := driver.ValidateKey(key); err != nil {
		return driver.LockInfo{Key: key}, err
	}
	infos, err := Call(ctx, s, "inspect", key, func(ctx context.Context) ([]driver.LockInfo, error) { return s.Show(ctx, []string{key}) })
	if err != nil {
		return driver.LockInfo{Key: key}, err
	}
	return infos[0], nil
}

// defaultPage is how many keys List looks for if limit is below 1.
const defaultPage = 100

// List is List of [driver.Inspector]. find shows about as many keys as q says, at most most, and returns the
// cursor of the next page. It may show more than q does.
func (s *Store) List(ctx context.Context, q driver.Listing, most int, find func(context.Context, driver.Listing) ([]driver.LockInfo, string, error)) ([]driver.LockInfo, string, error) {
	if q.Limit < 1 {
		q.Limit = defaultPage
	}
	q.Limit = min(q.Limit, most)
	var next string
	infos, err := Call(ctx, s, "list", "", func(ctx context.Context) (infos []driver.LockInfo, err error) {
		infos, next, err = find(ctx, q)
		return infos, err
	})
	if err != nil {
		return nil, "", err // find may still be under way
	}
	return slices.DeleteFunc(infos, func(info driver.LockInfo) bool { return !q.Shows(info) }), next, nil
}

// Readable shows keys for a list, without those for which inspect fails with an error that matches foreign: one key
// that was written by hand must not hide the others.
func Readable(keys []string, foreign error, inspect func(keys []string) ([]driver.LockInfo, error)) ([]driver.LockInfo, error) {
	infos, err := inspect(keys)
	switch {
	case !errors.Is(err, foreign):
		return infos, err
	case len(keys) == 1:
		return nil, nil
	}
	half := len(keys) / 2
	first, err := Readable(keys[:half], foreign, inspect)
	if err != nil {
		return nil, err
	}
	second, err := Readable(keys[half:], foreign, inspect)
	return append(first, second...), err
}

// ForceRelease is ForceRelease of [driver.Inspector].
func (s *Store) ForceRelease(ctx context.Context, key, reason string, only ...driver.Holder) ([]driver.Holder, error) {
	if err := driver.ValidateKey(key); err != nil {
		return nil, err
	}
	var all []driver.Holder
	for {
		gone, rest, err := s.force(ctx, key, reason, only)
		if errors.Is(err, driver.ErrHeld) && len(all) > 0 { // the rest has gone by itself, and others came
			return all, nil
		}
		if err != nil {
			if out := (*driver.UnavailableError)(nil); len(all) > 0 && errors.As(err, &out) { // some leases have ended
				err = &driver.UnavailableError{Op: out.Op, Key: key, Err: fmt.Errorf("%w: %w", driver.ErrOutcomeUnknown, out.Err)}
			}
			return nil, err
		}
		if all, only = append(all, gone...), rest; len(rest) == 0 {
			return all, nil
		}
	}
}

// force ends as many leases as one transaction takes, and says which are left.
func (s *Store) force(ctx context.Context, key, reason string, only []driver.Holder) (gone, rest []driver.Holder, err error) {
	type result struct {
		gone, rest []driver.Holder
		late       bool
		unsure     bool
	}
	a := Aim{Keys: []string{key}, Looks: true, Ends: true}
	res, err := call(ctx, s, "force release", key, a.Keys, func(work context.Context) (r result, err error) {
		unsure, err := s.Transact(work, a, func(st *keystate.State) (err error) {
			if r.gone, r.late = nil, ctx.Err() != nil; r.late {
				return nil // the holder may be one that the caller, who has gone, never saw
			}
			some := only
			r.rest = nil
			if named := driver.NamedHolders(st.Holders(st.Keys[0]), only); s.Forces > 0 && len(named) > s.Forces {
				some, r.rest = named[:s.Forces], named[s.Forces:]
			}
			r.gone, err = st.Force(st.Keys[0], reason, some)
			return err
		})
		a.Unsure = a.Unsure || unsure
		r.unsure = a.Unsure
		return r, err
	})
	if err == nil && res.late {
		err = s.Failure("force release", key, ctx.Err())
	} else if err == nil && res.unsure && len(res.gone) == 0 {
		err = &driver.UnavailableError{Op: "force release", Key: key, Err: driver.ErrOutcomeUnknown}
	}
	if out := (*driver.UnavailableError)(nil); res.unsure && errors.As(err, &out) {
		out.Refused = false // an attempt before the last one may have been carried out
	}
	return res.gone, res.rest, err
}
