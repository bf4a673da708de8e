package refusal

import (
	"context"
	"errors"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/keytmpl"
	"github.com/keyturn/keyturn/middleware/reasons"
)

// Kind is the reason why a request was not processed under its lock.
type Kind int

// The kinds. Internal is the zero value: an unknown error counts as the server's fault.
const (
	Internal            Kind = iota // any other error
	Canceled                        // the caller's context was canceled
	DeadlineExceeded                // the caller's context reached its deadline
	KeyInvalid                      // no key can be made from the request
	Held                            // another has the key, and the request does not wait
	WaitTimeout                     // another still had the key after the maximum wait
	TooManyWaiters                  // too many callers already wait for the key
	LeaseLost                       // the lease was lost while the handler ran
	LostByClose                     // the same, because the engine was closed
	FingerprintMismatch             // Once: the key was used before for other content
	ResultNotKept                   // Once: processed before, without a result to return
	OutcomeUnknown                  // the handler ran, and nobody knows whether the store recorded it
	RolledBack                      // Once in a database: another transaction was in the way, or the lease was lost first
	Unavailable                     // the store is out
	Closed                          // the engine is closed
	Deadlock                        // the caller would wait for itself
	Panicked                        // the store or the function panicked
	Forbidden                       // the rule's precheck said no
	count
)

// kinds has one row for each kind.
var kinds = [count]struct {
	reason string
	again  bool // a repeat is safe, and may succeed later
	ran    bool // the handler ran, or may have
}{
	Internal:            {reason: reasons.Internal},
	Canceled:            {reason: reasons.Canceled},
	DeadlineExceeded:    {reason: reasons.DeadlineExceeded},
	KeyInvalid:          {reason: reasons.KeyInvalid},
	Held:                {reason: reasons.LockHeld, again: true},
	WaitTimeout:         {reason: reasons.WaitTimeout, again: true},
	TooManyWaiters:      {reason: reasons.TooManyWaiters, again: true},
	LeaseLost:           {reason: reasons.LeaseLost, ran: true},
	LostByClose:         {reason: reasons.LeaseLost, ran: true},
	FingerprintMismatch: {reason: reasons.FingerprintMismatch},
	ResultNotKept:       {reason: reasons.ResultNotKept},
	OutcomeUnknown:      {reason: reasons.OutcomeUnknown, again: true, ran: true},
	RolledBack:          {reason: reasons.RolledBack, again: true, ran: true}, // only what it did in the database is undone
	Unavailable:         {reason: reasons.StoreUnavailable, again: true},
	Closed:              {reason: reasons.Stopping, again: true},
	Deadlock:            {reason: reasons.Internal},
	Panicked:            {reason: reasons.Internal},
	Forbidden:           {reason: reasons.Forbidden},
}

// Kinds returns all kinds.
func Kinds() []Kind {
	all := make([]Kind, count)
	for i := range all {
		all[i] = Kind(i)
	}
	return all
}

// Reason returns the reason for a client: one of the constants.
func (k Kind) Reason() string { return kinds[k].reason }

// Again reports whether a repeat is safe and may succeed later. The answer then says when to
// come back. It reports false for a lost lease: only the caller knows whether running the
// handler twice does harm.
func (k Kind) Again() bool { return kinds[k].again }

// Ran reports whether the handler has run, or may have.
func (k Kind) Ran() bool { return kinds[k].ran }

// Contended reports whether only the work of others is in the way.
func (k Kind) Contended() bool { return k == Held || k == WaitTimeout || k == TooManyWaiters }

// CallersEnd reports whether the caller's own context ended the wait. The engine's own timeouts
// have other kinds.
func (k Kind) CallersEnd() bool { return k == Canceled || k == DeadlineExceeded }

// Of returns the kind of an error. It allocates only for unusual errors. The order of the tests
// matters, because an error can match several sentinels.
func Of(err error) Kind {
	switch {
	case errors.Is(err, errDenied): // whatever the precheck's own error matches
		return Forbidden
	case errors.Is(err, errKeys):
		return Internal
	// Then come the errors of a handler that ran. Such an error may also match the cause of
	// the store's silence, or the end of the caller's context.
	case errors.Is(err, core.ErrLeaseLost):
		if errors.Is(err, core.ErrClosed) {
			return LostByClose
		}
		return LeaseLost
	case errors.Is(err, core.ErrOutcomeUnknown):
		return OutcomeUnknown
	case errors.Is(err, core.ErrRolledBack):
		return RolledBack
	case errors.Is(err, core.ErrWaitTimeout): // it also matches ErrHeld
		return WaitTimeout
	case errors.Is(err, core.ErrHeld):
		return Held
	case errors.Is(err, core.ErrTooManyWaiters):
		return TooManyWaiters
	case errors.Is(err, core.ErrUnavailable):
		return Unavailable
	case errors.Is(err, core.ErrClosed):
		return Closed
	case errors.Is(err, context.Canceled):
		return Canceled
	case errors.Is(err, context.DeadlineExceeded):
		return DeadlineExceeded
	case errors.Is(err, core.ErrFingerprintMismatch):
		return FingerprintMismatch
	case errors.Is(err, core.ErrResultNotKept):
		return ResultNotKept
	case errors.Is(err, core.ErrWouldDeadlock):
		return Deadlock
	case errors.Is(err, observe.ErrPanicked):
		return Panicked
	case errors.Is(err, core.ErrInvalidKey), errors.Is(err, keytmpl.ErrMissingValue), isValue(err):
		return KeyInvalid
	}
	return Internal
}

// Denied is the error of a request that the rule's precheck refused.
type Denied struct{ Err error }

var errDenied = errors.New("denied")

func (d *Denied) Error() string { return "keyturn: not allowed: " + d.Err.Error() }

// Is finds the error, in Of, without an allocation.
func (d *Denied) Is(target error) bool { return target == errDenied }

// Unwrap returns the precheck's error.
func (d *Denied) Unwrap() error { return d.Err }

// KeyFailed is the error of a key function that is the server's fault.
type KeyFailed struct{ Err error }

var errKeys = errors.New("no keys")

func (k *KeyFailed) Error() string { return k.Err.Error() }

// Is finds the error, in Of, without an allocation.
func (k *KeyFailed) Is(target error) bool { return target == errKeys }

// Unwrap returns the function's error.
func (k *KeyFailed) Unwrap() error { return k.Err }

// OfKeys makes a [*KeyFailed] of an error for which a request of ctx has no keys, unless the request is wrong
// or ctx has ended. A key function may ask a database, or another service's locks, and its error would otherwise
// pass for an answer of this engine.
func OfKeys(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if kind := Of(err); kind == KeyInvalid || kind.CallersEnd() && ctx.Err() != nil {
		return err
	}
	return &KeyFailed{err}
}

func isValue(err error) bool {
	var value *keytmpl.ValueError
	return errors.As(err, &value)
}

// RetryAfter is the engine's estimate of when the key will be free; 0 if it knows nothing.
func RetryAfter(err error) time.Duration {
	var held *core.HeldError
	var full *core.TooManyWaitersError
	switch {
	case errors.As(err, &held):
		return held.RetryAfter
	case errors.As(err, &full):
		return full.RetryAfter
	}
	return 0
}

// DefaultRetryAfter is the Retry-After for a client if nothing better is known.
const DefaultRetryAfter = time.Second

// ClientsRetryAfter is RetryAfter for a client, or the default.
func ClientsRetryAfter(err error) time.Duration {
	if d := RetryAfter(err); d > 0 {
		return d
	}
	return DefaultRetryAfter
}
