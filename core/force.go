package core

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
)

// ForceRelease takes key from its holders, foreign clients included, and returns the holders.
// It is no error if nobody holds the key. The first waiter gets the key at once.
//
// only names the leases that are to end, by Owner and Token, as [Engine.Inspect] has shown
// them. Without it, all leases on key end. An operator first looks and then acts, and the key
// may have changed hands in between. The store compares and ends in one step. If none of only
// holds the key any more but others do, they keep it, and the error is a [*HeldError]. For the
// store, the holders that a lease was handed on to within its process have the same lease.
//
//	info, err := eng.Inspect(ctx, key)
//	...
//	gone, err := eng.ForceRelease(ctx, key, "ops: hangs since 10:00", info.Holders...)
//
// It is for operators, and dangerous: a holder that is alive goes on until its next renewal
// tells it, after a third of its TTL at most. Until then two holders may work on the key at
// once. Only a resource that compares fencing tokens is safe from that. A holder learns the
// reason with its loss: a [*LeaseLostError] with LossForced.
//
// reason says who does it and why, in 1 to [driver.MaxNoteBytes] bytes without control
// characters; otherwise the error is an [*OptionError]. The holders, the hooks and the log
// ([WithLogger], at level warn) get it. The hooks and the log also get the owners.
//
// Its timeout and its errors are those of [Engine.Inspect]. An error that matches
// ErrOutcomeUnknown, and ErrUnavailable or ctx's own, says that it may have been done. A repeat
// is safe, but without only it takes the key from the holders at that time.
func (e *Engine) ForceRelease(ctx context.Context, key, reason string, only ...driver.Holder) ([]driver.Holder, error) {
	var holders []driver.Holder
	err := e.force(ctx, "force", key, reason, func(ctx context.Context) (err error) {
		holders, err = e.backend().store.ForceRelease(ctx, key, reason, only...)
		if held := (*HeldError)(nil); errors.As(err, &held) {
			shown := *held // the error is the store's
			shown.Key = e.ShowKey(key)
			return &shown
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(holders) > 0 {
		e.log.write(ctx, slog.LevelWarn, "keyturn: lease taken away by force", "key", e.ShowKey(key), "reason", reason,
			"count", len(holders), "holders", owners(holders))
		e.forced(ctx, key, reason, holders)
	}
	for _, h := range holders {
		e.wanted(key, h.Owner) // one of ours that lingers is not to be taken any more
	}
	return holders, nil
}

// Forget drops the record that [Engine.Once] keeps for key, so that the next call runs again.
// It also drops the version that [Engine.AdvanceVersion] keeps for it, so that any version counts as
// new. It reports whether there was either. It does not touch a lease, or an execution under
// way. With [WithMoveFrom] given to [New], it drops both on the old store, too. A call at the same
// time may copy them from one store to the other: then forget them again. reason, timeout and errors
// are those of [Engine.ForceRelease].
func (e *Engine) Forget(ctx context.Context, key, reason string) (bool, error) {
	was, err := e.forget(ctx, key, reason)
	old := e.backend().defaults.moveFrom
	if err != nil || old == nil || !old.backend().about.Ledger {
		return was, err
	}
	there, err := old.forget(ctx, key, reason)
	return (was || there) && err == nil, err
}

// forget is Forget on this engine's store alone.
func (e *Engine) forget(ctx context.Context, key, reason string) (bool, error) {
	var was bool
	err := e.force(ctx, "forget", key, reason, func(ctx context.Context) (err error) {
		was, err = e.backend().store.Forget(ctx, key)
		return err
	})
	if err != nil {
		return false, err
	}
	if was {
		e.log.write(ctx, slog.LevelWarn, "keyturn: record dropped by force", "key", e.ShowKey(key), "reason", reason)
		e.forced(ctx, key, reason, nil)
	}
	return was, nil
}

// force asks the store for something that cannot be undone. The log also has what the store may
// have done without an answer.
func (e *Engine) force(ctx context.Context, op, key, reason string, ask func(context.Context) error) error {
	if err := errors.Join(e.checkKey(key), validateReason(reason)); err != nil {
		return err
	}
	asked := false
	err := e.administer(ctx, op, key, func(ctx context.Context) error {
		asked = true
		return ask(ctx)
	})
	var out *UnavailableError
	refused := errors.As(err, &out) && out.Refused && !errors.Is(err, ErrOutcomeUnknown) // the account may not do it, say
	if !asked || refused || !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrClosed) && ctx.Err() == nil {
		return err
	}
	if err != nil {
		e.log.write(ctx, slog.LevelWarn, "keyturn: forced release unanswered, may have been carried out", "op", op, "key", e.ShowKey(key), "reason", reason, "error", err)
		err = fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	}
	return err
}

func (e *Engine) forced(ctx context.Context, key, reason string, holders []driver.Holder) {
	if e.hooks != nil {
		e.hooks.forced(ctx, observe.Removal{Key: e.ShowKey(key), Reason: reason, Store: e.backend().about.Name, Holders: holders})
	}
}

func validateReason(reason string) error {
	if reason != "" && isNote(reason) {
		return nil
	}
	const shown = 64 // the key may be a megabyte of anything
	return &OptionError{
		Option: "reason", Value: strconv.Quote(reason[:min(len(reason), shown)]),
		Want: "a reason of 1 to 256 bytes of UTF-8 without control characters",
	}
}

// owners returns the first few owners, for a line in a log.
func owners(holders []driver.Holder) []string {
	const shown = 16
	var names []string
	for _, h := range holders[:min(len(holders), shown)] {
		names = append(names, h.Owner)
	}
	return names
}
