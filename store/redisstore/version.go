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
	if err := driver.CheckRetention(retention); err != nil && version > 0 {
		return 0, err
	}
	r := new(send.Request)
	s.keys.AdvanceVersion(&r.Call, key, version, retention)
	if version > 0 {
		r.Replicas = s.cfg.replicas
	}
	if err := s.about(ctx, "advance_version", key, r); err != nil {
		return 0, err
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
