package core

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/keyturn/keyturn/core/internal/circuit"
	"github.com/keyturn/keyturn/core/internal/waitline"
)

// ownEnd returns the error of the caller's context, if that is why a request failed with err after
// the time waited. A deadline that ended the wait for a store that had been silent for a while is not:
// the outage comes first, because the caller needs to know it.
func ownEnd(ctx context.Context, err error, waited time.Duration) error {
	own := ctx.Err()
	outage := errors.Is(err, ErrUnavailable) && !errors.Is(err, waitline.ErrHurried) && waited >= circuit.FairTime
	if outage && !errors.Is(own, context.Canceled) {
		return nil
	}
	return own
}

// waitEnded returns the error of a caller that waited for key until its context ended with own. It
// says why, if the context knows more: a goroutine may have outlived the lease that it works under.
func (e *Engine) waitEnded(ctx context.Context, key string, own error) error {
	if cause := context.Cause(ctx); cause != nil && cause != own {
		return fmt.Errorf("keyturn: waiting for %q: %w (%v)", e.ShowKey(key), own, cause)
	}
	return fmt.Errorf("keyturn: waiting for %q: %w", e.ShowKey(key), own)
}

// refusal returns the caller's error for a request without a grant. The end of the caller's
// context comes first (see ownEnd).
func (e *Engine) refusal(ctx context.Context, claims []Claim, s *settings, err error, waited time.Duration) error {
	var held *HeldError
	var full *waitline.FullError
	switch own := ownEnd(ctx, err, waited); {
	case e.life.ending.Err() != nil:
		return ErrClosed
	case own != nil:
		return e.waitEnded(ctx, claims[0].Key, own)
	case errors.As(err, &held):
		told := e.lines.Holder(*held) // a copy: the error is the store's, or several callers share it
		told.RetryAfter = e.holds.RetryAfter(s.rule, told.Key, told.HeldFor, told.RetryAfter)
		told.Key = e.ShowKey(told.Key)
		if !s.failFast {
			told.TimedOut, told.Waited = true, waited
		}
		return &told
	case errors.As(err, &full):
		shown := full.Key
		if shown != "" { // "": the callers of all keys
			shown = e.ShowKey(shown)
		}
		return &TooManyWaitersError{Key: shown, Limit: full.Limit, RetryAfter: e.holds.RetryAfter(s.rule, full.Key, 0, 0)}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		// The engine's timeout ended the wait, and the store did not say who holds the key.
		if waited < circuit.FairTime {
			err = waitline.ErrHurried
		}
		return &UnavailableError{Op: "acquire", Err: err}
	}
	return e.showOutage(err)
}

// unlessHurried marks an outage that concerns only the caller, whose deadline left the store
// too little time: nothing runs unlocked because of it.
func unlessHurried(ctx context.Context, asked time.Time, err error) error {
	if !errors.Is(err, ErrUnavailable) || errors.Is(err, waitline.ErrHurried) || !circuit.CutShort(ctx, asked) {
		return err
	}
	if out := (*UnavailableError)(nil); errors.As(err, &out) {
		err = out.Err // it says what happened, and need not say twice that the store was unavailable
	}
	return &UnavailableError{Op: "acquire", Err: fmt.Errorf("%w: %v", waitline.ErrHurried, err)}
}

// mayRunUnlocked decides whether work may run without its lock after err; nothing else decides it.
// Three kinds of outage do not count:
//
//   - The answer came too late. By now somebody else may hold the key.
//   - The store refused to serve. It may still renew a holder's lease.
//   - The caller left the store too little time to answer. The store may be well.
func mayRunUnlocked(ctx context.Context, s *settings, err error) bool {
	if !s.runUnlocked || ctx.Err() != nil || !errors.Is(err, ErrUnavailable) {
		return false
	}
	return !isRefusal(err) && !errors.Is(err, errTooLate) && !errors.Is(err, waitline.ErrHurried)
}

// isRefusal reports whether err is the store's answer that it cannot serve.
func isRefusal(err error) bool {
	out := (*UnavailableError)(nil)
	return errors.As(err, &out) && out.Refused
}

// runsUnlocked tells the hooks that work runs without its lock because of err.
func (e *Engine) runsUnlocked(ctx context.Context, claims []Claim, s *settings, err error) {
	if e.hooks != nil {
		e.hooks.unlocked(ctx, e.acquisition(claims, s), err)
	}
}
