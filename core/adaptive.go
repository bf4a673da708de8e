package core

import (
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/holdstats"
)

// WithAdaptiveTTL makes the TTL follow how long leases are held. The TTL is three times the 99th
// percentile of the recent holds (about a thousand) of the same rule in this engine. For calls
// without a rule it counts the holds of the whole engine. The TTL is at least floor and at most
// ceiling. Until 32 holds were seen it is ceiling. So a crashed holder blocks its key for a small
// multiple of its usual work, and a usual lease is released before it needs a renewal.
//
// A holder that takes longer than usual keeps its lease: the watchdog renews it, as with any
// TTL. A short TTL has two costs: more renewals in that case, and less tolerance. A process,
// network or store that stands still for longer than the TTL loses its leases. So floor must be
// longer than the pauses that the program has to survive: a few seconds, on most systems. Leases
// that are lost all the same count as held for as long as they lasted. So the TTL grows again if
// more than one in a hundred is lost.
//
// The TTL is chosen when a lease is requested and does not change after that. floor must be at
// least 10 ms, ceiling at most 24 h and not below floor. Otherwise the option is an
// [*OptionError], also if the store can keep no TTL between the two ([driver.TTLs]). The TTL is
// rounded up to a whole step of the store. At most 256 rules have an average of
// their own; further ones use the holds of the whole engine. Off by default. It replaces
// [WithTTL].
func WithAdaptiveTTL(floor, ceiling time.Duration) Option {
	return option(func(s *settings) error {
		if floor < driver.MinTTL || ceiling > driver.MaxTTL || floor > ceiling {
			return &OptionError{Option: "WithAdaptiveTTL", Value: [2]time.Duration{floor, ceiling}, Want: "10ms to 24h, floor first"}
		}
		s.adaptive = holdstats.Bounds{Floor: floor, Ceiling: ceiling}
		return nil
	})
}
