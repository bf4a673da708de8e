package main_test

import (
	"context"
	"errors"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/memstore"
)

// Stores that are wrong, each in one way that somebody's lock was wrong in.

// forgetful releases any lease, whoever holds it.
type forgetful struct{ *memstore.Store }

func (s forgetful) Release(ctx context.Context, g driver.Grant) error {
	err := s.Store.Release(ctx, g)
	info, _ := s.Inspect(ctx, g.Claims[0].Key)
	if errors.Is(err, driver.ErrLeaseLost) && len(info.Holders) > 0 {
		return s.Store.Release(ctx, driver.Grant{Owner: info.Holders[0].Owner, Claims: g.Claims, TTL: g.TTL})
	}
	return err
}

// restarting has tokens that begin again with every ms.
type restarting struct{ *memstore.Store }

func few(token uint64) uint64 { return token%1000 + 1 }

func (s restarting) Acquire(ctx context.Context, req driver.Request) (driver.Grant, error) {
	g, err := s.Store.Acquire(ctx, req)
	g.Token = few(g.Token)
	return g, err
}

// Release does not compare tokens, as nobody could.
func (s restarting) Release(ctx context.Context, g driver.Grant) error {
	g.Token = 0
	return s.Store.Release(ctx, g)
}

func (s restarting) Inspect(ctx context.Context, key string) (driver.LockInfo, error) {
	info, err := s.Store.Inspect(ctx, key)
	for i := range info.Holders {
		info.Holders[i].Token = few(info.Holders[i].Token)
	}
	return info, err
}

// overtaking lets readers in beside readers, though a writer waits.
type overtaking struct{ *memstore.Store }

func (s overtaking) Acquire(ctx context.Context, req driver.Request) (driver.Grant, error) {
	g, err := s.Store.Acquire(ctx, req)
	info, _ := s.Inspect(ctx, req.Claims[0].Key)
	if errors.Is(err, driver.ErrHeld) && req.Claims[0].Mode == driver.ModeShared && info.Mode == driver.ModeShared {
		return driver.Grant{Owner: req.Owner, Claims: req.Claims, TTL: req.TTL, Token: info.Holders[len(info.Holders)-1].Token + 1}, nil
	}
	return g, err
}

// leaving keeps what a refused set had got.
type leaving struct{ *memstore.Store }

func (s leaving) Acquire(ctx context.Context, req driver.Request) (driver.Grant, error) {
	g, err := s.Store.Acquire(ctx, req)
	if errors.Is(err, driver.ErrHeld) && len(req.Claims) > 1 && !req.Wait {
		part := req
		part.Claims = req.Claims[:1]
		_, _ = s.Store.Acquire(ctx, part)
	}
	return g, err
}
