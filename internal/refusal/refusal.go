package refusal

import (
	"context"
	"errors"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/keytmpl"
)

// Kind is why a request was not processed under its lock.
type Kind int

// The kinds. Internal is the zero value: an error that nobody has a name for is
// the server's fault.
const (
	Internal            Kind = iota // anything else
	Canceled                        // the caller's context was canceled
	DeadlineExceeded                // the caller's context reached its deadline
	KeyInvalid                      // the request makes no key
	Held                            // another has the key, and the request does not wait
	WaitTimeout                     // another still has the key after the maximum wait
	TooManyWaiters                  // too many wait for the key already
	LeaseLost                       // the lock was lost while the handler ran
	LostByClose                     // the same, because the engine was closed
	FingerprintMismatch             // Once: the key was used before for other content
	ResultNotKept                   // Once: processed before, without a result to return
	OutcomeUnknown                  // the handler ran, and the store did not say what it recorded
	Unavailable                     // the store could not answer
	Closed                          // the engine is closed
	Deadlock                        // the caller would wait for itself
	Panicked                        // the store or the function panicked
	count
)

// kinds has one row for each kind.
var kinds = [count]struct {
	reason string
	again  bool // a repeat is safe, and later it may succeed
	ran    bool // the handler ran
}{
	Internal:            {reason: ReasonInternal},
	Canceled:            {reason: ReasonCanceled},
	DeadlineExceeded:    {reason: ReasonDeadlineExceeded},
	KeyInvalid:          {reason: ReasonKeyInvalid},
	Held:                {reason: ReasonLockHeld, again: true},
	WaitTimeout:         {reason: ReasonWaitTimeout, again: true},
	TooManyWaiters:      {reason: ReasonTooManyWaiters, again: true},
	LeaseLost:           {reason: ReasonLeaseLost, ran: true},
	LostByClose:         {reason: ReasonLeaseLost, ran: true},
	FingerprintMismatch: {reason: ReasonFingerprintMismatch},
	ResultNotKept:       {reason: ReasonResultNotKept},
	OutcomeUnknown:      {reason: ReasonOutcomeUnknown, again: true, ran: true},
	Unavailable:         {reason: ReasonStoreUnavailable, again: true},
	Closed:              {reason: ReasonStopping, again: true},
	Deadlock:            {reason: ReasonInternal},
	Panicked:            {reason: ReasonInternal},
}

// Kinds returns all of them.
func Kinds() []Kind {
	all := make([]Kind, count)
	for i := range all {
		all[i] = Kind(i)
	}
	return all
}

// Reason is what a client is told; one of the constants.
func (k Kind) Reason() string { return kinds[k].reason }

// Again reports whether a repeat is safe and may succeed later. The answer then
// says when to come back. After a lost lease it is not: whether running the
// handler twice does harm, only the caller knows.
func (k Kind) Again() bool { return kinds[k].again }

// Ran reports whether the handler has run.
func (k Kind) Ran() bool { return kinds[k].ran }

// Contended reports whether only the work of others is in the way.
func (k Kind) Contended() bool { return k == Held || k == WaitTimeout || k == TooManyWaiters }

// CallersEnd reports whether the caller's own context ended the wait. The engine
// never says so of a bound of its own.
func (k Kind) CallersEnd() bool { return k == Canceled || k == DeadlineExceeded }

// Of sorts an error. Nothing is allocated unless the error is an unusual one. The
// order matters, because an error can match several sentinels.
func Of(err error) Kind {
	switch {
	// First what happened to a handler that ran. The error may also match what
	// kept the store from answering, or the end of the caller.
	case errors.Is(err, core.ErrLeaseLost):
		if errors.Is(err, core.ErrClosed) {
			return LostByClose
		}
		return LeaseLost
	case errors.Is(err, core.ErrOutcomeUnknown):
		return OutcomeUnknown
	case errors.Is(err, core.ErrWaitTimeout): // matches ErrHeld, too
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

func isValue(err error) bool {
	var value *keytmpl.ValueError
	return errors.As(err, &value)
}

// RetryAfter is what the engine knows about when the key will be free; 0 when it
// knows nothing.
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

// DefaultRetryAfter is what a client is told where nothing better is known.
const DefaultRetryAfter = time.Second
