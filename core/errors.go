package core

import (
	"errors"
	"fmt"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/circuit"
)

// The sentinels tell causes apart: match them with errors.Is. The typed errors below, and in
// package driver, have the details: get them with errors.As.
//
// The caller's own deadline or cancel is none of these. It comes back wrapped, as
// context.DeadlineExceeded or context.Canceled.
var (
	// ErrHeld: somebody else holds the key. See [HeldError].
	ErrHeld = driver.ErrHeld
	// ErrWaitTimeout: the maximum wait ended before the caller's turn. An error that matches it
	// also matches ErrHeld.
	ErrWaitTimeout = driver.ErrWaitTimeout
	// ErrTooManyWaiters: too many callers of this process wait, for the key or in all. See
	// [TooManyWaitersError].
	ErrTooManyWaiters = errors.New("keyturn: too many waiters")
	// ErrLeaseLost: the lease ended before it was released, so somebody else may have held the
	// key meanwhile. See [LeaseLostError].
	ErrLeaseLost = driver.ErrLeaseLost
	// ErrNotHeld: the context does not hold the key as asked. See [AssertHeld].
	ErrNotHeld = errors.New("keyturn: not held")
	// ErrWouldDeadlock: the caller holds the key in a way that excludes what it asks for now, so
	// it would wait for itself. No retry helps: the program must change. See
	// [driver.DeadlockError].
	ErrWouldDeadlock = driver.ErrWouldDeadlock
	// ErrReleased: the lease was released. It is the cause of its context's end.
	ErrReleased = errors.New("keyturn: lease released")
	// ErrOutcomeUnknown: the request was sent and no answer came, so it may or may not have been
	// carried out. A repeat is safe. The engine itself repeats releases.
	ErrOutcomeUnknown = driver.ErrOutcomeUnknown
	// ErrUnavailable: the store did not answer, or answered that it can't serve. See
	// [UnavailableError].
	ErrUnavailable = driver.ErrUnavailable
	// ErrCircuitOpen: the store was not asked, because it has not answered for a while. An error
	// that matches it also matches ErrUnavailable. See [WithCircuit].
	ErrCircuitOpen = circuit.ErrOpen
	// ErrInvalidKey: the key can't name a lock. See [KeyError].
	ErrInvalidKey = driver.ErrInvalidKey
	// ErrInvalidClaim: the claim, or the set of claims, can't be granted in any case. See
	// [driver.ClaimError].
	ErrInvalidClaim = driver.ErrInvalidClaim
	// ErrInvalidOption: an option is out of range, or not for this call. See
	// [OptionError].
	ErrInvalidOption = driver.ErrInvalidOption
	// ErrClosed: the engine or the store is closed.
	ErrClosed = driver.ErrClosed
	// ErrFingerprintMismatch: the key is on record for other content. See [WithFingerprint].
	ErrFingerprintMismatch = errors.New("keyturn: the key was used before for other content")
	// ErrRolledBack: the database rolled an execution back because of another transaction, such as
	// in a deadlock, or because its COMMIT was lost, or the lease before the function ran. Nothing
	// was done, and a repeat is safe. See [WithExecutor].
	ErrRolledBack = errors.New("keyturn: rolled back, a repeat is safe")
	// ErrResultNotKept: the execution is on record without its result, which was over the limit
	// or found no room at the store. See [WithResultLimit].
	ErrResultNotKept = driver.ErrResultNotKept
)

// The typed errors that callers use most. Package driver declares them, because stores make
// them, too.
type (
	// KeyError says why a key was refused. It matches [ErrInvalidKey]. Fields: see
	// [driver.KeyError].
	KeyError = driver.KeyError
	// OptionError says which option has which wrong value. It matches [ErrInvalidOption].
	// Fields: see [driver.OptionError].
	OptionError = driver.OptionError
	// HeldError says who holds the key, for how long, and when to ask again. It matches
	// [ErrHeld], and [ErrWaitTimeout] if it ended a wait. Fields: see [driver.HeldError].
	HeldError = driver.HeldError
	// LeaseLostError says which lease was lost, and how. It matches [ErrLeaseLost], and
	// [ErrClosed] if closing the engine ended the lease. Fields: see [driver.LeaseLostError].
	LeaseLostError = driver.LeaseLostError
	// UnavailableError says what failed in an outage of the store. It matches [ErrUnavailable].
	// Fields: see [driver.UnavailableError].
	UnavailableError = driver.UnavailableError
)

// TooManyWaitersError says which queue was full. It matches [ErrTooManyWaiters] and not
// [ErrHeld]: this is overload, not contention.
type TooManyWaitersError struct {
	Key        string        // "": the callers of all keys together
	Limit      int           // the greatest number of callers
	RetryAfter time.Duration // when to ask again
}

func (e *TooManyWaitersError) Error() string {
	if e.Key == "" {
		return fmt.Sprintf("keyturn: too many waiters: %d callers already wait", e.Limit)
	}
	return fmt.Sprintf("keyturn: too many waiters: %d callers already wait for %q", e.Limit, e.Key)
}

// Is makes errors.Is(err, ErrTooManyWaiters) true.
func (e *TooManyWaitersError) Is(target error) bool { return target == ErrTooManyWaiters }
