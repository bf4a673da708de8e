package core

import (
	"context"
	"errors"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/lazyctx"
)

const (
	pingKey     = "keyturn.ping"
	pingTTL     = time.Second // or the shortest that the store keeps
	pingTimeout = 2 * time.Second
)

// Ping returns nil if the store grants locks now. It is for readiness probes: it takes the key
// "keyturn.ping" and gives it back, in two round trips. "Held", because another process pings, is an
// answer, too. While the circuit is open ([WithCircuit]), it is the next request that is let
// through, and its answer closes the circuit. Rules and hooks do not see it. On a store with several
// parts, such as a Redis Cluster, it asks the one that has this key.
//
// It returns within 2 s, or when ctx ends if that comes first. The error is the store's, which
// mostly matches ErrUnavailable, also if ctx's deadline passes before the store answers; ErrClosed; or
// [context.Canceled] if ctx was cancelled.
func (e *Engine) Ping(ctx context.Context) error {
	reg := e.life.register(pingKey)
	if err := reg.enter(); err != nil {
		return err
	}
	defer reg.leave()
	if err := ctx.Err(); err != nil {
		return err
	}
	bounded := lazyctx.Bounded(ctx, e.life.ending, pingTimeout)
	defer bounded.Cancel()
	req := driver.Request{Owner: e.owners.next(), Claims: []Claim{Exclusive(pingKey)}, TTL: e.backend().about.TTLs.Nearest(pingTTL)}
	e.backend().circuit.AskNext(req.Claims)
	grant, _, _, err := e.backend().circuit.Ask(bounded, time.Now(), req, func(ctx context.Context, req driver.Request) (driver.Grant, *driver.Record, error) {
		g, err := e.backend().store.Acquire(ctx, req)
		return g, nil, err
	})
	switch {
	case errors.Is(err, ErrHeld):
		return nil
	case err == nil:
		err = e.backend().store.Release(bounded, grant)
	}
	switch {
	case err == nil, errors.Is(err, ErrLeaseLost):
		return nil
	case errors.Is(ctx.Err(), context.Canceled):
		return ctx.Err() // it says nothing about the store
	}
	return err
}
