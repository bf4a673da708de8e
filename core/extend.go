package core

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/keyturn/keyturn/core/observe"
)

// Extend renews the lease now, for ttl, and makes ttl the TTL of all further renewals. Call it
// when the work needs a longer or shorter TTL than it began with. It is not needed to hold a lease
// for long, because the watchdog renews the leases of living holders; and [WithMaxHold] still ends
// the lease.
//
// ttl has the range of [WithTTL] and is rounded up as there; 0 keeps the present TTL. Otherwise
// the error is an [*OptionError]. A nested lease extends the outer one. With [WithMoveFrom], the old store's
// lease is extended first. A lease that is carried
// to another process, or borrowed from one (core/experimental/carry), keeps its TTL, because both
// sides renew it: any other ttl than 0 is an [*OptionError].
//
// The error matches ErrLeaseLost or ErrReleased if the lease has ended; nothing brings it back. It
// matches ErrOutcomeUnknown, and ErrUnavailable or ctx's own error, if the store did not answer.
// Then the old TTL goes on. As nobody knows which TTL is in force, the deadline is the earlier of
// both. A repeat is safe. The wait for the store is a third of the shorter TTL at most, and not
// longer than [WithReleaseTimeout] and ctx allow.
func (l *Lease) Extend(ctx context.Context, ttl time.Duration) error {
	asked, ok := ttl, true
	if ttl, ok = l.engine.backend().about.TTLs.Fit(ttl); !ok && ttl != 0 {
		return &OptionError{Option: "Extend", Value: asked, Want: "0, or " + l.engine.backend().about.TTLs.String()}
	}
	if err := l.Err(); err != nil && l.nest != nil {
		return err
	}
	base := l.base()
	if ttl != 0 && base.watch.Shared() {
		return &OptionError{Option: "Extend", Value: ttl, Want: "0, because another process renews the lease with its present TTL"}
	}
	if old := base.terms.old; old != nil {
		if err := old.Extend(ctx, ttl); err != nil {
			return err
		}
	}
	return base.change(ctx, "extend", func(ctx context.Context) (sent bool, err error) {
		return base.watch.Extend(ctx, ttl)
	})
}

// change makes the watchdog ask the store for another term instead of its next renewal.
func (l *Lease) change(ctx context.Context, op string, ask func(context.Context) (sent bool, err error)) (err error) {
	if h := l.engine.hooks; h != nil {
		defer func() { h.extended(l, err) }()
	}
	if err := l.Err(); err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, l.engine.cfg.releaseTimeout)
	defer cancel()
	asked, sent := time.Now(), false
	if bounded.Err() == nil {
		err = observe.ErrPanicked // unless the store returns
		sent, err = ask(bounded)
	}
	return l.outcome(ctx, op, asked, sent, err)
}

// outcome returns the holder's error for a change. That the lease has ended comes before the
// store's answer.
func (l *Lease) outcome(ctx context.Context, op string, asked time.Time, sent bool, err error) error {
	if ended := l.Err(); ended != nil {
		return ended
	}
	switch own := ownEnd(ctx, err, time.Since(asked)); {
	case err == nil && sent:
		return nil
	case own != nil:
		err = fmt.Errorf("keyturn: %s of %q: %w", op, l.engine.ShowKey(l.Key()), own)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		err = &UnavailableError{Op: op, Err: err} // the engine's timeout ended it
	}
	err = l.engine.showOutage(err)
	if !sent {
		return err
	}
	return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
}
