package core

import (
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/handoff"
)

// WithMinHold keeps the key for at least d after the grant, even if the lease is released
// sooner. It is for a periodic job that several processes start at about the same time, by
// clocks that differ: without it, a short job is over before the last process asks, and runs
// again. The lease itself ends with its release: its context, its renewals, and
// [Lease.Release], which does not wait. The store keeps the key until d is over, by its own
// clock.
//
// A lease that is lost, or whose process dies, ends as any other, so its TTL should be longer than
// d. While the key stays, [Engine.Inspect] shows its last holder, and nobody of this process gets
// it sooner either. A caller that waits at the store is told when the key will be free. A store may round
// what is left of d up, as it does with TTLs: etcd to 2 s or more.
//
// d must be 0 to 24 h, and no more than the store's longest TTL ([driver.TTLs]); otherwise the
// option is an [*OptionError]. A store that cannot do it gives an error that matches
// errors.ErrUnsupported, before any I/O. [Engine.Once] refuses it, because a record says more
// than a key that is kept. Default: 0.
func WithMinHold(d time.Duration) CallOption {
	return callOption(func(s *settings) error {
		if d < 0 || d > driver.MaxTTL {
			return &OptionError{Option: "WithMinHold", Value: d, Want: "0 to 24h"}
		}
		s.minHold = d
		return nil
	})
}

// fitMinHold refuses a min hold that the store cannot keep.
func (s *settings) fitMinHold(store driver.Description) error {
	if s.minHold == 0 {
		return nil
	}
	if !store.MinHold {
		return &driver.UnsupportedError{Feature: "keeping a lease after its release (WithMinHold)"}
	}
	if store.TTLs.Nearest(s.minHold) < s.minHold {
		return &OptionError{Option: "WithMinHold", Value: s.minHold, Want: "no more than the longest of " + store.TTLs.String()}
	}
	return nil
}

// releaseRequest is the grant as the store is asked to release it now: at once, or after what is
// left of its min hold.
func (e *Engine) releaseRequest(g handoff.Grant) driver.Grant {
	asked := g.Grant
	if g.MinHoldEnd == nil {
		return asked
	}
	if left := time.Until(*g.MinHoldEnd); left > 0 {
		asked.MinHold = e.backend().about.TTLs.Nearest(left)
	}
	return asked
}
