package core

import (
	"errors"
	"fmt"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/circuit"
)

// The sentinels below tell causes apart; match them with errors.Is. The
// typed errors carry the details; reach them with errors.As.
//
// A caller's own deadline or cancel is none of these: it comes back wrapped
// as context.DeadlineExceeded or context.Canceled.
var (
	// ErrHeld: somebody else holds the key. See [HeldError].
	ErrHeld = driver.ErrHeld
	// ErrWaitTimeout: the caller's turn had not come when the maximum wait was over.
	// An error that matches it also matches ErrHeld.
	ErrWaitTimeout = driver.ErrWaitTimeout
	// ErrTooManyWaiters: the line for the key in this process is full, or all of
	// them together are.
	ErrTooManyWaiters = errors.New("keyturn: too many waiters")
	// ErrLeaseLost: the lease ended before it was released, so somebody else
	// may have held the key meanwhile. See [LeaseLostError].
	ErrLeaseLost = driver.ErrLeaseLost
	// ErrNotHeld: the context does not hold the key. See [AssertHeld].
	ErrNotHeld = errors.New("keyturn: not held")
	// ErrWouldDeadlock: the caller holds the key already, in a way that excludes
	// what it asks for now, so it would wait for itself. See [driver.DeadlockError].
	ErrWouldDeadlock = driver.ErrWouldDeadlock
	// ErrReleased is the cause of a lease's context after a release.
	ErrReleased = errors.New("keyturn: lease released")
	// ErrOutcomeUnknown: the request was sent and no answer came, so it may or
	// may not have been carried out. Repeating it is safe. A release is repeated by the
	// engine itself.
	ErrOutcomeUnknown = driver.ErrOutcomeUnknown
	// ErrUnavailable: the store could not answer. See [UnavailableError].
	ErrUnavailable = driver.ErrUnavailable
	// ErrCircuitOpen: the store has not answered for a while, so it was not asked.
	// An error that matches it also matches ErrUnavailable. See [WithCircuit].
	ErrCircuitOpen = circuit.ErrOpen
	// ErrInvalidKey: the key can't name a lock. See [KeyError].
	ErrInvalidKey = driver.ErrInvalidKey
	// ErrInvalidClaim: the claim, or the set of claims, can't be asked for.
	ErrInvalidClaim = driver.ErrInvalidClaim
	// ErrInvalidOption: an option's value is out of range.
	ErrInvalidOption = driver.ErrInvalidOption
	// ErrClosed: the engine or the store has been closed.
	ErrClosed = driver.ErrClosed
	// ErrFingerprintMismatch: the key was used before for other content.
	ErrFingerprintMismatch = errors.New("keyturn: used before for other content")
	// ErrResultNotKept: the execution is on record, and its result is not: it was
	// over the limit, or the store had no room for it. See [driver.ResultNotKeptError].
	ErrResultNotKept = driver.ErrResultNotKept
)

// Errors that come from the store, or are about claims, are declared in package
// driver, which every store imports.
type (
	// KeyError says why a key was refused. It matches [ErrInvalidKey].
	KeyError = driver.KeyError
	// OptionError says which option has which impossible value. It matches
	// [ErrInvalidOption].
	OptionError = driver.OptionError
	// HeldError says who has the key. It matches [ErrHeld], and [ErrWaitTimeout]
	// too when it ended a wait. Stores return it for a refused request and for a
	// wait that its context ended; the engine fills in Waited.
	HeldError = driver.HeldError
	// LeaseLostError says which lease ended early and how. It matches
	// [ErrLeaseLost], and [ErrClosed] too when closing the engine ended it.
	LeaseLostError = driver.LeaseLostError
	// UnavailableError is an outage of the store: no answer, or one that says it
	// can't serve. It matches [ErrUnavailable].
	UnavailableError = driver.UnavailableError
)

// TooManyWaitersError says which line was full. It matches
// [ErrTooManyWaiters] and not [ErrHeld]: this is overload, not contention.
type TooManyWaitersError struct {
	Key        string // empty: all lines together
	Limit      int
	RetryAfter time.Duration
}

func (e *TooManyWaitersError) Error() string {
	if e.Key == "" {
		return fmt.Sprintf("keyturn: %d callers wait already", e.Limit)
	}
	return fmt.Sprintf("keyturn: %d callers wait for %q already", e.Limit, e.Key)
}

// Is makes errors.Is(err, ErrTooManyWaiters) true.
func (e *TooManyWaitersError) Is(target error) bool { return target == ErrTooManyWaiters }
