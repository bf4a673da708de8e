package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// version is where the version of key is kept, in the slot of its lock.
func (ks keyspace) version(key string) string { return "{" + ks.prefix + key + "}:v" }

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
	r := newRequest(new(request), raiseScript, []string{s.keys.version(key)}, strconv.FormatUint(version, 10), retention.Milliseconds())
	if version > 0 {
		r.replicas = s.cfg.replicas
	}
	if !s.await(ctx, nil, r.alone()) {
		return 0, &driver.UnavailableError{Op: "raise", Err: silence(ctx)}
	}
	err := r.err
	if err == nil {
		err = r.confirmed()
	}
	if err != nil {
		return 0, failure("raise", key, err)
	}
	newest, err := strconv.ParseUint(text(r.value), 10, 64)
	if err != nil {
		return 0, failure("raise", key, fmt.Errorf("%w: version %.40q", ErrCorrupt, text(r.value)))
	}
	return newest, nil
}
