package core

import (
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/holdstats"
)

// ttl returns the TTL for a call.
func (e *Engine) ttl(s *settings) time.Duration {
	if s.adaptive == (holdstats.Bounds{}) {
		return s.ttl
	}
	return e.backend().about.TTLs.Nearest(e.holds.TTL(s.rule, s.adaptive))
}

// fitTTL makes the TTL one that the store can keep. If that is impossible, it returns an error.
func (s *settings) fitTTL(store driver.TTLs) error {
	if s.adaptive == (holdstats.Bounds{}) {
		ttl, ok := store.Fit(s.ttl)
		if !ok {
			return &OptionError{Option: "WithTTL", Value: s.ttl, Want: store.String()}
		}
		s.ttl = ttl
		return nil
	}
	floor, ceiling := store.Nearest(s.adaptive.Floor), store.Nearest(s.adaptive.Ceiling)
	most, _ := store.Fit(s.adaptive.Ceiling)
	_, keeps := store.Fit(floor) // a store's bounds may leave no TTL at all
	if !keeps || floor > most || ceiling < s.adaptive.Floor {
		return &OptionError{Option: "WithAdaptiveTTL", Value: [2]time.Duration{s.adaptive.Floor, s.adaptive.Ceiling}, Want: store.String()}
	}
	s.adaptive = holdstats.Bounds{Floor: floor, Ceiling: ceiling}
	return nil
}
