package redisstore

import (
	"context"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/redisstore/internal/send"
)

// AdvanceVersion implements [driver.Ledger]. With [WithReplicas] it waits for the replicas as a grant
// does. If too few have the version, the error is ErrNoReplicas.
func (s *Store) AdvanceVersion(ctx context.Context, key string, version uint64, retention time.Duration) (uint64, error) {
	if err := driver.ValidateKey(key); err != nil {
		return 0, err
	}
	if err := driver.CheckRetention(retention); err != nil && version > 0 {
		return 0, err
	}
	if err := s.calls.Enter(); err != nil {
		return 0, err
	}
	defer s.calls.Leave()
	r := new(send.Request)
	s.keys.AdvanceVersion(&r.Call, key, version, retention)
	if version > 0 {
		r.Replicas = s.cfg.replicas
	}
	if !s.sender.Await(ctx, nil, r.Alone()) {
		return 0, &driver.UnavailableError{Op: "advance_version", Err: silence(ctx)}
	}
	newest, err := r.Version()
	if err == nil {
		err = confirmed(r)
	}
	if err != nil {
		return 0, failure("advance_version", key, err)
	}
	return newest, nil
}
