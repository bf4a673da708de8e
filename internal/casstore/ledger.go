package casstore

import (
	"context"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/keystate"
)

// Begin is Begin of [driver.Ledger]. An execution has one exclusive claim; anything else gets an error that
// matches [errors.ErrUnsupported].
func (s *Store) Begin(ctx context.Context, req driver.Request) (driver.Grant, *driver.Record, error) {
	if err := driver.CheckOnce(req.Claims); err != nil {
		return driver.Grant{}, nil, err
	}
	ans, err := s.acquire(ctx, keystate.Request{Request: req, Once: true})
	return ans.Grant, ans.Record, err
}

// Complete is Complete of [driver.Ledger]. fits, if it is not nil, reports whether the backend has room for
// the result, too.
func (s *Store) Complete(ctx context.Context, g driver.Grant, rec driver.Record, retention time.Duration, fits func(*keystate.Record) bool) error {
	if err := driver.CheckOnce(g.Claims); err != nil {
		return err
	}
	if err := driver.CheckRetention(retention); err != nil {
		return err
	}
	keep := keystate.Record{Record: rec, Owner: g.Owner}
	o, err := s.about(ctx, "complete", &g, Aim{Records: true}, nil, func(st *keystate.State, o *outcome) (err error) {
		kept := keep
		if fits != nil && !fits(&kept) {
			kept.Result, kept.ResultNotKept = nil, true
		}
		kept.Until = st.Now.Add(retention)
		o.record, err = st.Finish(&g, &kept)
		return err
	})
	if err == nil && o.record.ResultNotKept && !rec.ResultNotKept { // also if the call is repeated
		err = &driver.ResultNotKeptError{Key: g.Claims[0].Key}
	}
	return err
}

// Forget is Forget of [driver.Inspector], by op.
func (s *Store) Forget(ctx context.Context, key string, op func(context.Context) (had bool, err error)) (bool, error) {
	if err := driver.ValidateKey(key); err != nil {
		return false, err
	}
	return call(ctx, s, "forget", key, []string{key}, op)
}

// AdvanceVersion is AdvanceVersion of [driver.Ledger], by op.
func (s *Store) AdvanceVersion(ctx context.Context, key string, version uint64, retention time.Duration, op func(context.Context) (uint64, error)) (uint64, error) {
	err := driver.ValidateKey(key)
	if err == nil && version > 0 {
		err = driver.CheckRetention(retention)
	}
	if err != nil {
		return 0, err
	}
	return call(ctx, s, "advance_version", key, []string{key}, op)
}
