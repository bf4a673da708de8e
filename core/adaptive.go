package core

import (
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/holdstats"
)

// WithAdaptiveTTL has the TTL follow how long leases are really held: those of
// the same rule in this engine ([WithRule]; all of the engine's for calls without
// a rule), in the recent past, about a thousand leases back. The TTL is three
// times what 99 of 100 were held at most, in no case less than floor or more
// than ceiling, and ceiling as long as fewer than 32 were seen. So a crashed
// holder blocks its key for about as long as its work usually takes some time
// longer, instead of for the 30 s that suit the slowest work of all; and a lease
// that is usual is released before it needs a renewal.
//
// A holder that takes longer than usual, even a thousand times, keeps its lease:
// the watchdog renews it, as with any TTL. What a short TTL costs are requests in
// that case, and tolerance: a process, a network or a store that stands still for
// longer than the TTL loses its leases. So floor has to be longer than the pauses
// that must be survived: a few seconds, on most systems. Should leases be lost
// all the same, they count as held for as long as they lasted, so the TTL grows
// again when more than one in a hundred is.
//
// The TTL is chosen when the lease is asked for, and is what the store is told:
// nothing about it is adaptive from then on. Floor is at least [driver.MinTTL], ceiling
// at most [driver.MaxTTL] and not less than floor. Anything else is an [*OptionError], and so
// are bounds between which the store can keep no TTL ([driver.TTLs]). Otherwise what the
// store can keep narrows them, and the TTL is rounded up to a whole step of the store. It
// excludes [WithTTL]. Off by default.
//
// At most 256 rules are told apart; further ones go by the engine's holds.
func WithAdaptiveTTL(floor, ceiling time.Duration) Option {
	return option{"WithAdaptiveTTL", aboutTTL, func(s *settings) error {
		if floor < driver.MinTTL || ceiling > driver.MaxTTL || floor > ceiling {
			return &OptionError{Option: "WithAdaptiveTTL", Value: [2]time.Duration{floor, ceiling}, Want: "10ms to 24h, floor first"}
		}
		s.adaptive = holdstats.Bounds{Floor: floor, Ceiling: ceiling}
		return nil
	}}
}

// ttl is the one for a call.
func (e *Engine) ttl(s *settings) time.Duration {
	if s.adaptive == (holdstats.Bounds{}) {
		return s.ttl
	}
	return e.about.TTLs.Nearest(e.holds.TTL(s.rule, s.adaptive))
}

// fit makes the TTL one that the store can keep, or says that it can't.
func (s *settings) fit(store driver.TTLs) error {
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
	if floor > most || ceiling < s.adaptive.Floor {
		return &OptionError{Option: "WithAdaptiveTTL", Value: [2]time.Duration{s.adaptive.Floor, s.adaptive.Ceiling}, Want: store.String()}
	}
	s.adaptive = holdstats.Bounds{Floor: floor, Ceiling: ceiling}
	return nil
}
