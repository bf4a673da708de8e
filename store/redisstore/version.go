package redisstore

import (
	"context"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Raise implements [driver.Ledger]. With [WithReplicas] it waits for them as a grant
// does, and says ErrNoReplicas if too few have the version.
func (s *Store) Raise(ctx context.Context, key string, version uint64, retention time.Duration) (uint64, error) {
	if err := driver.ValidateKey(key); err != nil {
		return 0, err
	}
	if retention < time.Millisecond {
		return 0, &driver.OptionError{Option: "retention", Value: retention, Want: "1ms or more"}
	}
	if err := s.enter(); err != nil {
		return 0, err
	}
	defer s.leave()
	r := new(request)
	s.keys.Raise(&r.Call, key, version, retention)
	if version > 0 {
		r.replicas = s.cfg.replicas
	}
	if !s.await(ctx, nil, r.alone()) {
		return 0, &driver.UnavailableError{Op: "raise", Err: silence(ctx)}
	}
	newest, err := r.Version()
	if err == nil {
		err = r.confirmed()
	}
	if err != nil {
		return 0, failure("raise", key, err)
	}
	return newest, nil
}
