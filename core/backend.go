package core

import (
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/circuit"
	"github.com/keyturn/keyturn/core/internal/linger"
	"github.com/keyturn/keyturn/core/internal/watchdog"
	"github.com/keyturn/keyturn/core/observe"
)

// backend is the store of an engine, and the parts of the engine that work with it. [Engine.Bind]
// replaces the one of an engine whose store comes later, all at once.
type backend struct {
	store    driver.Store
	about    driver.Description // what the store says about itself
	defaults settings           // the engine's, as the store can keep them
	circuit  *circuit.Breaker
	watchdog *watchdog.Watchdog
	lingers  *linger.Table
}

// backend returns the store that the engine has now. Between two calls the store may have come.
func (e *Engine) backend() *backend { return e.now.Load() }

// equip makes the backend for a store, or says why the engine's defaults do not suit it. silence is
// that of [WithCircuit].
func (e *Engine) equip(store driver.Store, silence time.Duration) (*backend, error) {
	if e.keyFilter != nil {
		store = hiding{store, e}
	}
	b := &backend{store: store, about: store.Describe(), defaults: e.cfg.defaults}
	if b.defaults.ttl == 0 {
		b.defaults.ttl = b.about.TTLs.Nearest(defaultTTL)
	}
	if err := b.defaults.fit(b.about); err != nil {
		return nil, err
	}
	b.circuit = circuit.New(circuit.Config{Silence: silence, Log: e.log.write, Answered: e.debts.heard, Partition: b.about.Partition})
	b.watchdog = newWatchdog(e, b)
	b.lingers = linger.New(b.watchdog, e.cfg.maxLingering, func(left linger.Left) { e.returnLeft(left, observe.LingerOver) })
	return b, nil
}

// listen has the store tell the engine. The store may do so at once, and hooks may then call the engine, so no
// mutex is held.
func (e *Engine) listen(b *backend) {
	if b.about.OnImpaired != nil && e.hooks != nil {
		b.about.OnImpaired(func(reason error) { e.hooks.storeImpaired(b.about.Name, reason) })
	}
	if b.about.OnWanted != nil {
		b.about.OnWanted(e.wanted)
	}
}
