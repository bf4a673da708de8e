package redisstore

import (
	"context"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/redisstore/internal/send"
)

// Inspect implements [driver.Inspector].
func (s *Store) Inspect(ctx context.Context, key string) (driver.LockInfo, error) {
	r := new(send.Request)
	s.keys.Inspect(&r.Call, key)
	if err := s.about(ctx, "inspect", key, r); err != nil {
		return driver.LockInfo{Key: key}, err
	}
	return info("inspect", key, r)
}

// inspect inspects keys in one round trip.
func (s *Store) inspect(ctx context.Context, keys []string) ([]driver.LockInfo, []error) {
	infos, errs := make([]driver.LockInfo, len(keys)), make([]error, len(keys))
	reqs := make([]*send.Request, len(keys))
	for i, key := range keys {
		reqs[i] = new(send.Request)
		s.keys.Inspect(&reqs[i].Call, key)
	}
	answered := s.sender.Await(ctx, nil, reqs)
	for i, key := range keys {
		if answered {
			infos[i], errs[i] = info("inspect", key, reqs[i])
		} else {
			infos[i], errs[i] = driver.LockInfo{Key: key}, &driver.UnavailableError{Op: "inspect", Err: silence(ctx)}
		}
	}
	return infos, errs
}

// ForceRelease implements [driver.Inspector]. The server remembers the reason for an hour, for
// about the last thousand leases of the key.
func (s *Store) ForceRelease(ctx context.Context, key, reason string, only ...driver.Holder) ([]driver.Holder, error) {
	r := new(send.Request)
	s.keys.ForceRelease(&r.Call, key, reason, s.cfg.forcedFor, only)
	if err := s.about(ctx, "force release", key, r); err != nil {
		return nil, err
	}
	before, err := info("force release", key, r)
	if err != nil {
		return nil, err
	}
	ended := driver.NamedHolders(before.Holders, only)
	switch {
	case len(ended) > 0:
		return ended, nil
	case r.Attempts.Possible() > 1:
		// The client has repeated the request, and the first attempt's answer was lost.
		return nil, &driver.UnavailableError{Op: "force release", Err: driver.ErrOutcomeUnknown}
	case len(before.Holders) > 0:
		h := before.Holders[0]
		return nil, &driver.HeldError{Key: key, Holder: h.Owner, Trace: h.Trace, HeldFor: h.HeldFor, RetryAfter: max(0, h.Left)}
	}
	return nil, nil
}

// Forget implements [driver.Inspector].
func (s *Store) Forget(ctx context.Context, key string) (bool, error) {
	r := new(send.Request)
	s.keys.Forget(&r.Call, key)
	if err := s.about(ctx, "forget", key, r); err != nil {
		return false, err
	}
	return r.Count() > 0, nil
}

// about sends a request about a key that is not of an owner.
func (s *Store) about(ctx context.Context, op, key string, r *send.Request) error {
	if err := driver.ValidateKey(key); err != nil {
		return err
	}
	if err := s.calls.Enter(); err != nil {
		return err
	}
	defer s.calls.Leave()
	if !s.sender.Await(ctx, nil, r.Alone()) {
		return &driver.UnavailableError{Op: op, Err: silence(ctx)}
	}
	if r.Err != nil {
		return failure(op, key, r.Err)
	}
	return nil
}

// info reads the answer to an inspection of key.
func info(op, key string, r *send.Request) (driver.LockInfo, error) {
	all, err := r.Info(key)
	if err != nil {
		return all, failure(op, key, err)
	}
	return all, nil
}
