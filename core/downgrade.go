package core

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/keyturn/keyturn/core/driver"
)

// Downgrade turns every exclusive claim of the lease into a shared one. At no moment in between
// can somebody else have the key exclusively. It is for a holder that has written, goes on
// reading, and lets others read meanwhile. The token stays. There is no way back except to release
// and acquire again, because two holders that both upgraded would wait for each other. Work that
// holds the key by re-entrance loses its claim, so it must be done before.
//
// [Lease.Claims] says shared from the moment the store is asked, whatever it answers. The holder
// must not rely on more. If the store does not answer, the error matches ErrOutcomeUnknown, and
// ErrUnavailable or ctx's own error. Others may not be admitted yet; the watchdog repeats the
// request until it has an answer. A repeat is safe, also after success. The wait is bounded as that
// of [Lease.Extend].
//
// Other errors: ErrLeaseLost or ErrReleased if the lease has ended. ErrInvalidClaim if it never was
// exclusive or is nested, and [errors.ErrUnsupported] if the store has no shared claims, or in
// [Engine.Once], whose record needs the exclusive lease; both come before any I/O.
func (l *Lease) Downgrade(ctx context.Context) error {
	if l.nest != nil {
		return &driver.ClaimError{Key: l.engine.ShowKey(l.Key()), Reason: "is held by an outer lease: downgrade that one instead"}
	}
	if l.terms.once {
		return errDowngradeInOnce
	}
	exclusive := slices.ContainsFunc(l.grant.Claims, func(c Claim) bool { return c.Mode == driver.ModeExclusive })
	if !exclusive {
		return &driver.ClaimError{Key: l.engine.ShowKey(l.Key()), Reason: "is not held exclusively, so it can't be downgraded"}
	}
	shared := slices.Clone(l.grant.Claims)
	for i := range shared {
		if shared[i].Mode == driver.ModeExclusive {
			shared[i].Mode = driver.ModeShared
		}
	}
	if err := l.engine.backend().supports(shared); err != nil {
		return err
	}
	return l.change(ctx, "downgrade", func(ctx context.Context) (sent bool, err error) {
		return l.watch.Downgrade(ctx, shared)
	})
}

var errDowngradeInOnce = fmt.Errorf("keyturn: no downgrade in Once, whose record needs the exclusive lease: %w", errors.ErrUnsupported)
