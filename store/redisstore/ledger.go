package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/redisstore/internal/send"
)

// Begin implements [driver.Ledger].
func (s *Store) Begin(ctx context.Context, req driver.Request) (driver.Grant, *driver.Record, error) {
	return s.acquire(ctx, req, true)
}

// Complete implements [driver.Ledger]. A server that has reached maxmemory stores the record
// without its result, because a repeat must not do the work again. The error then matches
// driver.ErrResultNotKept.
func (s *Store) Complete(ctx context.Context, g driver.Grant, rec driver.Record, retention time.Duration) error {
	if err := errors.Join(driver.CheckLease(g.Owner, g.Claims, g.TTL), driver.CheckOnce(g.Claims)); err != nil {
		return err
	}
	if err := driver.CheckRetention(retention); err != nil {
		return err
	}
	if err := s.calls.Enter(); err != nil {
		return err
	}
	defer s.calls.Leave()
	r := endings.Get().(*send.Request)
	*r = send.Request{Replicas: s.cfg.replicas}
	s.keys.Complete(&r.Call, g, rec, retention)
	if !s.sender.Await(ctx, nil, r.Alone()) {
		return &driver.UnavailableError{Op: "complete", Key: g.Claims[0].Key, Err: silence(ctx)} // r is still under way
	}
	defer endings.Put(r)
	err := verdict(r, "complete", g.Claims, g)
	if v, _ := r.Verdict(1); err == nil && v.ResultNotKept {
		return fmt.Errorf("%w: %w", ErrOutOfMemory, &driver.ResultNotKeptError{Key: g.Claims[0].Key})
	}
	return err
}
