package core

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/watchdog"
)

// newWatchdog makes the watchdog for a store whose circuit is set.
func newWatchdog(e *Engine, b *backend) *watchdog.Watchdog {
	c := watchdog.Config{
		Store:    b.store,
		Wall:     e.cfg.wall,
		Identity: b.about.Identity,
		Answered: b.circuit.Learn,
		Parts:    b.circuit.Parts,
		Slow:     e.log.slow,
		Replaced: func(ctx context.Context, leases int) {
			e.log.write(ctx, slog.LevelWarn, "keyturn: the store was restarted or has failed over, all leases are renewed", "leases", leases)
		},
	}
	if !b.about.Local {
		c.Early = rand.Float64() // otherwise engines that started together would renew together for ever
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

// Stop implements watchdog.Holder.
func (w *watched) Stop(why error) { (*Lease)(w).stop(why) }

// Lost implements watchdog.Holder.
func (w *watched) Lost(why error) { (*Lease)(w).end(why) }

// Renewed implements watchdog.Holder.
func (w *watched) Renewed(late time.Duration, err error) {
	if h := w.engine.hooks; h != nil {
		if errors.Is(err, ErrLeaseLost) { // the store's error has the key: see WithKeyFilter
			err = (*Lease)(w).taken(err)
		}
		h.renewed((*Lease)(w), late, w.engine.showOutage(err))
	}
}
