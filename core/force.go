package core

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"unicode"
	"unicode/utf8"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
)

// ForceRelease takes key from those who hold it, foreign clients too, and returns who they
// were; that nobody holds it is no error. The first waiter gets the key at once.
//
// only names the leases that are to end, by Owner and Token, as [Engine.Inspect] has shown
// them; without it, all leases on key end. An operator looks first and acts then, and the key may have
// changed hands in between. The store compares and ends in one step. If none of only holds
// the key any more and others do, they keep it, and the error is a [*HeldError].
//
//	info, err := eng.Inspect(ctx, key)
//	...
//	gone, err := eng.ForceRelease(ctx, key, "ops: hangs since 10:00", info.Holders...)
//
// It is for operators, and dangerous: a holder that is alive goes on until its
// next renewal (a third of its TTL at most) tells it, so for that long two may
// work on the key at once. Only what compares fencing tokens is safe from that.
// A holder learns the reason with its loss: a [*LeaseLostError] with LossForced.
//
// The reason says who does it and why, in 1 to [driver.MaxNoteBytes] bytes without
// control characters, else the error is an [*OptionError]. It goes to the holders,
// to hooks and into the log ([WithLogger], at level warn), and so do the owners.
//
// It is bounded as [Engine.Inspect] is, with the same errors. One that matches
// ErrOutcomeUnknown as well as ErrUnavailable or ctx's own says that it may or
// may not have been done; repeating it is safe, but without only it takes the key from
// whoever holds it by then.
func (e *Engine) ForceRelease(ctx context.Context, key, reason string, only ...driver.Holder) ([]driver.Holder, error) {
	var holders []driver.Holder
	err := e.force(ctx, "force", key, reason, func(ctx context.Context) (err error) {
		holders, err = e.store.ForceRelease(ctx, key, reason, only...)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(holders) > 0 {
		e.log.write(ctx, slog.LevelWarn, "keyturn: lease taken away by force", "key", key, "reason", reason,
			"count", len(holders), "holders", owners(holders))
		e.forced(ctx, key, reason, holders)
	}
	return holders, nil
}

// Forget drops the record that [Engine.Once] keeps for key, so that the next call
// runs again, and the version that [Engine.Raise] keeps for it, so that any comes
// through; it reports whether there was either. An execution under way is not
// touched, nor is a lease. Reason, bounds and errors are as in
// [Engine.ForceRelease].
func (e *Engine) Forget(ctx context.Context, key, reason string) (bool, error) {
	var was bool
	err := e.force(ctx, "forget", key, reason, func(ctx context.Context) (err error) {
		was, err = e.store.Forget(ctx, key)
		return err
	})
	if err != nil {
		return false, err
	}
	if was {
		e.log.write(ctx, slog.LevelWarn, "keyturn: record dropped by force", "key", key, "reason", reason)
		e.forced(ctx, key, reason, nil)
	}
	return was, nil
}

// force has the store asked for something that can't be undone. What it may have
// done without answering stands in the log, too.
func (e *Engine) force(ctx context.Context, op, key, reason string, ask func(context.Context) error) error {
	if err := errors.Join(driver.ValidateKey(key), validateReason(reason)); err != nil {
		return err
	}
	asked := false
	err := e.administer(ctx, op, key, func(ctx context.Context) error {
		asked = true
		return ask(ctx)
	})
	if !asked || !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrClosed) && ctx.Err() == nil {
		return err
	}
	if err != nil {
		e.log.write(ctx, slog.LevelWarn, "keyturn: forced release unanswered, may have been carried out", "op", op, "key", key, "reason", reason, "error", err)
		err = fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	}
	return err
}

func (e *Engine) forced(ctx context.Context, key, reason string, holders []driver.Holder) {
	if e.hooks != nil {
		e.hooks.forced(ctx, observe.Removal{Key: key, Reason: reason, Store: e.about.Name, Holders: holders})
	}
}

func validateReason(reason string) error {
	bad := reason == "" || len(reason) > driver.MaxNoteBytes || !utf8.ValidString(reason)
	for _, r := range reason[:min(len(reason), driver.MaxNoteBytes)] {
		bad = bad || unicode.IsControl(r)
	}
	if !bad {
		return nil
	}
	const shown = 64 // it may be a megabyte of anything
	return &OptionError{
		Option: "reason", Value: strconv.Quote(reason[:min(len(reason), shown)]),
		Want: "a reason of 1 to 256 bytes of UTF-8 without control characters",
	}
}

// owners are the first few, for a line in a log.
func owners(holders []driver.Holder) []string {
	const shown = 16
	var names []string
	for _, h := range holders[:min(len(holders), shown)] {
		names = append(names, h.Owner)
	}
	return names
}
