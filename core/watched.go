package core

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/watchdog"
)

// newWatchdog makes the watchdog of an engine whose store, hooks and circuit are set.
func newWatchdog(e *Engine, wall func(time.Time) time.Time) *watchdog.Watchdog {
	c := watchdog.Config{
		Store:    e.store,
		Wall:     wall,
		Identity: e.about.Identity,
		Answered: e.circuit.Learn,
		Parts:    e.circuit.Parts,
		Replaced: func(ctx context.Context, leases int) {
			e.log.write(ctx, slog.LevelWarn, "keyturn: the store was restarted or has failed over, all leases are renewed", "leases", leases)
		},
	}
	if e.hooks != nil { // only hooks need the time
		c.Called = e.storeCalled
	}
	return watchdog.New(c)
}

// watched is a lease as the watchdog knows it: a [watchdog.Holder], whose methods users of
// Lease do not need.
type watched Lease

// Loss implements watchdog.Holder.
func (w *watched) Loss(reason driver.LossReason, said error) error {
	l := (*Lease)(w)
	if said != nil {
		return l.taken(said)
	}
	return l.lossError(reason)
}

// Lost implements watchdog.Holder.
func (w *watched) Lost(why error) { (*Lease)(w).end(why) }

// Renewed implements watchdog.Holder.
func (w *watched) Renewed(late time.Duration, err error) {
	if h := w.engine.hooks; h != nil {
		h.renewed((*Lease)(w), late, err)
	}
}

// Downgrade implements watchdog.Holder. It calls Acquire: the same owner that asks again gets
// the same lease, in the new modes and with a full TTL. So it is a renewal as well, and can be
// repeated.
//
// Unlike a renewal, it can bring back a lease that has ended meanwhile, at the store or by a
// release. Nobody would hold that lease, so Downgrade releases it.
func (w *watched) Downgrade(ctx context.Context, g driver.Grant) error {
	l := (*Lease)(w)
	got, err := l.engine.store.Acquire(ctx, driver.Request{
		Owner: g.Owner, Claims: g.Claims, TTL: g.TTL, Held: true,
		Rule: l.terms.rule, Trace: l.engine.hooks.trace(l.ctx),
	})
	switch {
	case errors.Is(err, ErrHeld):
		return l.lossError(driver.LossTaken) // somebody else has it by now
	case err == nil && got.Token != g.Token:
		err = l.lossError(driver.LossTaken)
	case l.Err() == nil:
		return err
	case err == nil && errors.Is(l.Err(), ErrReleased):
		return nil // the release that is under way ends it, or would have come too late
	}
	undo := l.grant
	undo.Grant = g
	undo.Token = got.Token // token 0: it may also end what an unanswered request left
	bounded := l.engine.detached(ctx)
	defer bounded.Cancel()
	_ = l.engine.storeRelease(bounded, undo, l.terms.rule)
	return err
}
