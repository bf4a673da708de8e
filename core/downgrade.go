package core

import (
	"context"
	"slices"

	"github.com/keyturn/keyturn/core/driver"
)

// Downgrade turns every exclusive claim of the lease into a shared one, without a
// moment in between in which somebody else could have the key exclusively: for a
// holder that has written and goes on reading, and lets others read meanwhile. The
// token stays. There is no way back but to release and to acquire again: two
// holders that both wanted to would wait for each other.
//
// From the moment the store is asked [Lease.Claims] says shared, whatever comes of
// it, and the holder must not count on more. When the store does not answer, the
// error matches ErrOutcomeUnknown, and ErrUnavailable or ctx's own besides: others
// may not be let in yet, and the watchdog repeats it instead of a renewal until it
// has an answer. Repeating it is safe, also after it has succeeded.
//
// Work that holds the key by re-entrance loses what it counts on, so it must be done
// before.
//
// Other errors: ErrLeaseLost or ErrReleased when the lease has ended,
// ErrInvalidClaim when it never was exclusive or is nested in another one, and one
// that matches errors.ErrUnsupported where the store has no shared claims. The last two come
// before any I/O. It is bounded as [Lease.Extend] is.
func (l *Lease) Downgrade(ctx context.Context) error {
	if l.nest != nil {
		return &driver.ClaimError{Key: l.Key(), Reason: "is held by an outer lease: only that one can be downgraded"}
	}
	exclusive := slices.ContainsFunc(l.grant.Claims, func(c Claim) bool { return c.Mode == driver.ModeExclusive })
	if !exclusive {
		return &driver.ClaimError{Key: l.Key(), Reason: "is not held exclusively, so it can't be downgraded"}
	}
	shared := slices.Clone(l.grant.Claims)
	for i := range shared {
		if shared[i].Mode == driver.ModeExclusive {
			shared[i].Mode = driver.ModeShared
		}
	}
	if err := l.engine.supports(shared); err != nil {
		return err
	}
	return l.change(ctx, "downgrade", func(ctx context.Context) (sent bool, err error) {
		return l.watch.Downgrade(ctx, shared)
	})
}
