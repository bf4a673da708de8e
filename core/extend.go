package core

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/keyturn/keyturn/core/observe"
)

// Extend renews the lease now, for ttl, and has it renewed with that from now on:
// for work that turns out to take so long, or to be so risky, that the TTL it was
// acquired with does not fit. The bounds of ttl, and how it is rounded, are those of
// [WithTTL]; 0 keeps the present TTL. The watchdog renews a living holder's lease
// anyway, so it is not needed to hold a lease for long; and max hold still ends it.
//
// The error matches ErrLeaseLost or ErrReleased when the lease has ended: nothing
// brings it back. It matches ErrOutcomeUnknown when the store did not answer, and
// ErrUnavailable or ctx's own error besides, for what kept the answer away. Then the
// old TTL goes on, and since nobody knows which of the two is in force, the deadline
// is the earlier one of both; repeating is safe. A value out of range gives an
// [*OptionError].
//
// Of a nested lease it extends the outer one, whose token it has. One that was
// carried to another process (package carry), or borrowed from one, keeps its TTL,
// as both sides renew it and each counts on the term that it knows: any other is an
// [*OptionError], too.
//
// A store that hangs is given a third of the TTL, the shorter one, but no more than
// [WithReleaseTimeout] and ctx allow.
func (l *Lease) Extend(ctx context.Context, ttl time.Duration) error {
	asked, ok := ttl, true
	if ttl, ok = l.engine.about.TTLs.Fit(ttl); !ok && ttl != 0 {
		return &OptionError{Option: "Extend", Value: asked, Want: "0, or " + l.engine.about.TTLs.String()}
	}
	if err := l.Err(); err != nil && l.nest != nil {
		return err
	}
	if ttl != 0 && l.base().watch.Shared() {
		return &OptionError{Option: "Extend", Value: ttl, Want: "0, since another process renews the lease with its present TTL"}
	}
	base := l.base()
	return base.change(ctx, "extend", func(ctx context.Context) (sent bool, err error) {
		return base.watch.Extend(ctx, ttl)
	})
}

// change has the watchdog ask the store for another term in place of its next renewal.
func (l *Lease) change(ctx context.Context, op string, ask func(context.Context) (sent bool, err error)) (err error) {
	if h := l.engine.hooks; h != nil {
		defer func() { h.extended(l, err) }()
	}
	if err := l.Err(); err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, l.engine.releaseTimeout)
	defer cancel()
	sent := false
	if bounded.Err() == nil {
		err = observe.ErrPanicked // unless the store returns
		sent, err = ask(bounded)
	}
	return l.outcome(ctx, op, sent, err)
}

// outcome is what the holder is told of a change: that the lease has ended comes
// before whatever the store said.
func (l *Lease) outcome(ctx context.Context, op string, sent bool, err error) error {
	if ended := l.Err(); ended != nil {
		return ended
	}
	own := ctx.Err()
	switch {
	case err == nil && sent:
		return nil
	case own != nil && (errors.Is(own, context.Canceled) || !errors.Is(err, ErrUnavailable)):
		err = fmt.Errorf("keyturn: %s of %q: %w", op, l.Key(), own)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		err = &UnavailableError{Op: op, Err: err} // the bound was the engine's
	}
	if !sent {
		return err
	}
	return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
}
