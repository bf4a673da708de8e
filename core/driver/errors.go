package driver

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A store returns errors that match these sentinels; package core passes them on to
// callers under the same names. Each has a typed error below that carries the details.
var (
	// ErrHeld: somebody else holds the key. See [HeldError].
	ErrHeld = errors.New("keyturn: held by another")
	// ErrWaitTimeout: the maximum wait ended before the caller's turn came. An error that
	// matches it also matches ErrHeld.
	ErrWaitTimeout = errors.New("keyturn: waited too long")
	// ErrLeaseLost: the lease ended before it was released, so somebody else
	// may have held the key meanwhile. See [LeaseLostError].
	ErrLeaseLost = errors.New("keyturn: lease lost")
	// ErrWouldDeadlock: the caller already holds the key in a mode that excludes the new
	// request, so it would wait for itself. See [DeadlockError].
	ErrWouldDeadlock = errors.New("keyturn: would wait for itself")
	// ErrOutcomeUnknown: the request was sent and no answer came, so the store may or may not
	// have carried it out. Repeating it is safe. The engine itself repeats a release.
	ErrOutcomeUnknown = errors.New("keyturn: outcome unknown")
	// ErrUnavailable: the store did not answer, or answered that it cannot serve. See
	// [UnavailableError].
	ErrUnavailable = errors.New("keyturn: store unavailable")
	// ErrForeign: a store has found something under the key that it did not write, or that was changed
	// by hand. No retry helps, and no other key is concerned. So an error that matches it does not match
	// ErrUnavailable: it opens no circuit, and nothing runs unlocked because of it. Only an operator can repair
	// the key. A value that a store takes for a foreign client's lock is a *HeldError instead.
	ErrForeign = errors.New("keyturn: the key holds something that is not a lock")
	// ErrInvalidKey: a lock cannot have this key. See [KeyError].
	ErrInvalidKey = errors.New("keyturn: invalid key")
	// ErrInvalidOwner: a lease cannot have this owner. The engine makes no such owner, so core has
	// no name for this. See [CheckLease].
	ErrInvalidOwner = errors.New("keyturn: invalid owner")
	// ErrInvalidClaim: the claim or the set of claims is invalid. See [ClaimError].
	ErrInvalidClaim = errors.New("keyturn: invalid claim")
	// ErrInvalidOption: an option's value is out of range. See [OptionError].
	ErrInvalidOption = errors.New("keyturn: invalid option")
	// ErrClosed: the engine or the store has been closed.
	ErrClosed = errors.New("keyturn: closed")
	// ErrResultNotKept: the execution is on record, but its result is not, because it was over
	// the limit or the store had no room for it. See [ResultNotKeptError].
	ErrResultNotKept = errors.New("keyturn: executed before, result not kept")
)

// KeyError says why a key was refused. It matches [ErrInvalidKey].
type KeyError struct {
	Key    string
	Reason string
}

func (e *KeyError) Error() string {
	// A hostile key may be a megabyte of anything, so the text has only its head, quoted.
	const shown = 64
	if len(e.Key) > shown {
		return fmt.Sprintf("keyturn: key %q... %s", e.Key[:shown], e.Reason)
	}
	return fmt.Sprintf("keyturn: key %q %s", e.Key, e.Reason)
}

// Is makes errors.Is(err, ErrInvalidKey) true.
func (e *KeyError) Is(target error) bool { return target == ErrInvalidKey }

// ClaimError says why a claim or a set of claims was refused. It matches
// [ErrInvalidClaim].
type ClaimError struct {
	Key    string // empty if the set as a whole is invalid
	Reason string
}

func (e *ClaimError) Error() string {
	if e.Key == "" {
		return "keyturn: the set of claims " + e.Reason
	}
	return fmt.Sprintf("keyturn: claim %q %s", e.Key, e.Reason)
}

// Is makes errors.Is(err, ErrInvalidClaim) true.
func (e *ClaimError) Is(target error) bool { return target == ErrInvalidClaim }

// OptionError says which option has which invalid value. It matches [ErrInvalidOption].
type OptionError struct {
	Option string // the function's name, such as "WithTTL"
	Value  any
	Want   string
}

func (e *OptionError) Error() string {
	return fmt.Sprintf("keyturn: %s(%v): want %s", e.Option, e.Value, e.Want)
}

// Is makes errors.Is(err, ErrInvalidOption) true.
func (e *OptionError) Is(target error) bool { return target == ErrInvalidOption }

// HeldError says who has the key. It matches [ErrHeld], and also [ErrWaitTimeout] if it ended a
// wait. A store returns it for a request that it refused, and for a wait whose context ended.
// The engine sets Local, Waited and TimedOut.
type HeldError struct {
	Key string
	// Holder is the value stored for the lease: an owner that [ParseOwner] can read, a
	// foreign client's value, or "" if the store does not know it. It has [MaxOwnerBytes] at
	// most: of a longer foreign value the store gives the beginning and a hash. Show it to
	// operators. Never send it to the caller of a service.
	Holder string
	// RetryAfter says after what time a retry is useful; 0 if nothing is known. A store sets it to
	// what is left of the lease. The engine expects the holder to take as long as usual, or 0.1 s if
	// none has ended since the first refusal, or as long again as until now if that is longer.
	RetryAfter time.Duration
	// HeldFor is how long the holder has had the key, at least; 0 if that is unknown.
	HeldFor time.Duration
	// Trace is the holder's trace, as its engine's hook Trace wrote it (observe.Hooks); "" if
	// unknown.
	Trace string
	// Ahead is the number of waiters in front at the store; 0 also if that is unknown.
	Ahead int
	// Local: the caller waited in this process's line, behind other callers, and did not ask
	// the store itself.
	Local bool
	// Waited is how long the caller waited; 0 if it asked not to wait.
	Waited time.Duration

	// TimedOut: the error ended a wait. The engine sets it; stores leave it false.
	TimedOut bool
}

func (e *HeldError) Error() string {
	if e.TimedOut {
		return fmt.Sprintf("keyturn: %q still held after a wait of %v", e.Key, e.Waited.Round(time.Millisecond))
	}
	return fmt.Sprintf("keyturn: %q is held by another", e.Key)
}

// Is makes errors.Is report true for ErrHeld, and after a wait also for ErrWaitTimeout.
func (e *HeldError) Is(target error) bool {
	return target == ErrHeld || (e.TimedOut && target == ErrWaitTimeout)
}

// LossReason says why a lease was lost.
type LossReason string

// The reasons for a loss.
const (
	// LossExpired: no renewal succeeded before the local deadline.
	LossExpired LossReason = "expired"
	// LossTaken: the store answered that this owner no longer has the lease.
	LossTaken LossReason = "taken"
	// LossMaxHold: the lease was held for as long as core.WithMaxHold allows.
	LossMaxHold LossReason = "max hold"
	// LossSuspended: this machine slept past the lease's deadline.
	LossSuspended LossReason = "suspended"
	// LossClosed: the engine was closed before the holder had finished.
	LossClosed LossReason = "closed"
	// LossForced: a call of Engine.ForceRelease took the lease away.
	LossForced LossReason = "forced"
	// LossOuter: this lease was nested in another one, or borrowed from another process, and
	// that other lease ended.
	LossOuter LossReason = "outer lease ended"
)

// LeaseLostError says which lease ended early, and why. It matches [ErrLeaseLost], and also
// [ErrClosed] if the lease ended because the engine was closed.
type LeaseLostError struct {
	Key    string
	Token  uint64
	Reason LossReason
	// Detail is the reason that the caller of Engine.ForceRelease gave (LossForced only).
	Detail string
}

func (e *LeaseLostError) Error() string {
	if e.Detail != "" {
		return fmt.Sprintf("keyturn: lease on %q lost: %s: %s", e.Key, e.Reason, e.Detail)
	}
	return fmt.Sprintf("keyturn: lease on %q lost: %s", e.Key, e.Reason)
}

// Is makes errors.Is(err, ErrLeaseLost) true.
func (e *LeaseLostError) Is(target error) bool {
	return target == ErrLeaseLost || (e.Reason == LossClosed && target == ErrClosed)
}

// DeadlockError says which key the caller already holds. It matches [ErrWouldDeadlock] and no
// other sentinel, not even ErrHeld: neither a wait nor a retry helps, the program has to
// change.
type DeadlockError struct {
	Key string
	// Held is the mode in which the caller has the key. Wanted is what it asked for in
	// addition.
	Held, Wanted Claim
	// Once: the caller asked for an execution by Engine.Once.
	Once bool
}

func (e *DeadlockError) Error() string {
	if e.Once {
		return fmt.Sprintf("keyturn: the caller already holds %q, so Once would wait for the caller's own lease", e.Key)
	}
	return fmt.Sprintf("keyturn: the caller already holds %q %s, so acquiring it %s would wait for the caller's own lease", e.Key, e.Held.Mode, e.Wanted.Mode)
}

// Is makes errors.Is(err, ErrWouldDeadlock) true.
func (e *DeadlockError) Is(target error) bool { return target == ErrWouldDeadlock }

// UnavailableError reports an outage of the store: it gave no answer, or answered that it
// cannot serve. It matches [ErrUnavailable].
type UnavailableError struct {
	Op  string // "acquire", "release", ...
	Key string // the key whose request failed, if there were several; empty if unknown or irrelevant
	Err error
	// Refused: the store answered that it cannot serve, for example because memory, replicas or
	// permissions are missing. Such a store may still renew the leases of others, so no work runs unlocked
	// because of it (core.WithRunUnlocked).
	Refused bool
}

func (e *UnavailableError) Error() string {
	return fmt.Sprintf("keyturn: store unavailable: %s: %v", e.Op, e.Err)
}

// Is makes errors.Is(err, ErrUnavailable) true.
func (e *UnavailableError) Is(target error) bool { return target == ErrUnavailable }

// Unwrap returns the store's error, except a context's error: a timeout that the engine set for
// a silent store must not look like a cancel by the caller.
func (e *UnavailableError) Unwrap() error {
	if errors.Is(e.Err, context.Canceled) || errors.Is(e.Err, context.DeadlineExceeded) {
		return nil
	}
	return e.Err
}

// UnsupportedError says what the store cannot do. It matches [errors.ErrUnsupported].
type UnsupportedError struct {
	Feature string
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("keyturn: this store does not support %s", e.Feature)
}

// Is makes errors.Is(err, errors.ErrUnsupported) true.
func (e *UnsupportedError) Is(target error) bool { return target == errors.ErrUnsupported }

// ResultNotKeptError says which key was executed before without a stored result, so there is
// none to return. It matches [ErrResultNotKept].
type ResultNotKeptError struct {
	Key string
}

func (e *ResultNotKeptError) Error() string {
	return fmt.Sprintf("keyturn: %q was executed before, and its result was not kept", e.Key)
}

// Is makes errors.Is(err, ErrResultNotKept) true.
func (e *ResultNotKeptError) Is(target error) bool { return target == ErrResultNotKept }
