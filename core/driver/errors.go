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
	// ErrWaitTimeout: the caller's turn had not come when the maximum wait was over.
	// An error that matches it also matches ErrHeld.
	ErrWaitTimeout = errors.New("keyturn: waited too long")
	// ErrLeaseLost: the lease ended before it was released, so somebody else
	// may have held the key meanwhile. See [LeaseLostError].
	ErrLeaseLost = errors.New("keyturn: lease lost")
	// ErrWouldDeadlock: the caller holds the key already, in a way that excludes
	// what it asks for now, so it would wait for itself. See [DeadlockError].
	ErrWouldDeadlock = errors.New("keyturn: would wait for itself")
	// ErrOutcomeUnknown: the request was sent and no answer came, so it may or
	// may not have been carried out. Repeating it is safe. A release is repeated by the
	// engine itself.
	ErrOutcomeUnknown = errors.New("keyturn: outcome unknown")
	// ErrUnavailable: the store could not answer. See [UnavailableError].
	ErrUnavailable = errors.New("keyturn: store unavailable")
	// ErrInvalidKey: the key can't name a lock. See [KeyError].
	ErrInvalidKey = errors.New("keyturn: invalid key")
	// ErrInvalidClaim: the claim, or the set of claims, can't be asked for.
	ErrInvalidClaim = errors.New("keyturn: invalid claim")
	// ErrInvalidOption: an option's value is out of range.
	ErrInvalidOption = errors.New("keyturn: invalid option")
	// ErrClosed: the engine or the store has been closed.
	ErrClosed = errors.New("keyturn: closed")
	// ErrResultNotKept: the execution is on record, and its result is not: it was
	// over the limit, or the store had no room for it. See [ResultNotKeptError].
	ErrResultNotKept = errors.New("keyturn: done before, result not kept")
)

// KeyError says why a key was refused. It matches [ErrInvalidKey].
type KeyError struct {
	Key    string
	Reason string
}

func (e *KeyError) Error() string {
	// A hostile key may be a megabyte of anything: quoted, and only its head.
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
	Key    string // empty when the set as a whole is at fault
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

// OptionError says which option has which impossible value. It matches
// [ErrInvalidOption].
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

// HeldError says who has the key. It matches [ErrHeld], and [ErrWaitTimeout]
// too when it ended a wait. Stores return it for a refused request and for a
// wait that its context ended; the engine fills in Waited.
type HeldError struct {
	Key string
	// Holder is the value stored for the lease: an owner that core.ParseOwner
	// can read, a foreign client's value, or "" when the store can't say.
	// Show it to operators; never send it to the caller of a service.
	Holder string
	// RetryAfter is when asking again makes sense; 0 when nothing is known.
	RetryAfter time.Duration
	// HeldFor is how long the holder has had the key, at least; 0 when not known.
	HeldFor time.Duration
	// Trace is the holder's, as its engine's hook Trace wrote it (core.Hooks); "" when not known.
	Trace string
	// Ahead is how many wait in front, at the store; 0 also when not known.
	Ahead int
	// Local: the wait was in this process's line, behind others of it, and the store
	// was not asked.
	Local bool
	// Waited is how long the caller waited; 0 when it asked not to.
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

// Is makes errors.Is true for ErrHeld, and for ErrWaitTimeout after a wait.
func (e *HeldError) Is(target error) bool {
	return target == ErrHeld || (e.TimedOut && target == ErrWaitTimeout)
}

// LossReason says how a lease was lost.
type LossReason string

// The ways to lose a lease.
const (
	// LossExpired: no renewal came through before the local deadline.
	LossExpired LossReason = "expired"
	// LossTaken: the store said that the lease is not this owner's any more.
	LossTaken LossReason = "taken"
	// LossMaxHold: it was held for as long as core.WithMaxHold allows.
	LossMaxHold LossReason = "max hold"
	// LossSuspended: this machine slept past the lease's deadline.
	LossSuspended LossReason = "suspended"
	// LossClosed: the engine was closed before the holder was done.
	LossClosed LossReason = "closed"
	// LossForced: somebody took it away with Engine.ForceRelease.
	LossForced LossReason = "forced"
	// LossOuter: the lease that this one was nested in, or borrowed from another
	// process, ended.
	LossOuter LossReason = "outer lease ended"
)

// LeaseLostError says which lease ended early and how. It matches
// [ErrLeaseLost], and [ErrClosed] too when closing the engine ended it.
type LeaseLostError struct {
	Key    string
	Token  uint64
	Reason LossReason
	// Detail is what was given as the reason for LossForced.
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

// DeadlockError says which key the caller holds already. It matches
// [ErrWouldDeadlock], and neither ErrHeld nor any other sentinel: no wait and no
// retry helps, the program has to be changed.
type DeadlockError struct {
	Key string
	// Held is the mode in which the caller has the key, Wanted what it asked for
	// on top of that.
	Held, Wanted Claim
	// Once: what it asked for was an execution by Engine.Once.
	Once bool
}

func (e *DeadlockError) Error() string {
	if e.Once {
		return fmt.Sprintf("keyturn: %q is held by the caller itself: Once on it would wait for its own lease", e.Key)
	}
	return fmt.Sprintf("keyturn: %q is held %s by the caller itself: to get it %s would wait for its own lease", e.Key, e.Held.Mode, e.Wanted.Mode)
}

// Is makes errors.Is(err, ErrWouldDeadlock) true.
func (e *DeadlockError) Is(target error) bool { return target == ErrWouldDeadlock }

// UnavailableError is an outage of the store: no answer, or one that says it
// can't serve. It matches [ErrUnavailable].
type UnavailableError struct {
	Op  string // "acquire", "release", ...
	Key string // whose request failed, of several; empty: not known, or it makes no difference
	Err error
	// Refused: the store answered that it cannot serve, for want of memory or replicas,
	// for instance. So it is there, it may go on renewing others' leases, and no work
	// runs unlocked because of it (core.WithRunUnlocked).
	Refused bool
}

func (e *UnavailableError) Error() string {
	return fmt.Sprintf("keyturn: store unavailable: %s: %v", e.Op, e.Err)
}

// Is makes errors.Is(err, ErrUnavailable) true.
func (e *UnavailableError) Is(target error) bool { return target == ErrUnavailable }

// Unwrap returns what the store said, but not a context's error: the bound
// that cut a silent store short must not look like the caller giving up.
func (e *UnavailableError) Unwrap() error { return hideContext(e.Err) }

func hideContext(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

// UnsupportedError says what the store can't do. It matches
// [errors.ErrUnsupported].
type UnsupportedError struct {
	Feature string
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("keyturn: this store does not support %s", e.Feature)
}

// Is makes errors.Is(err, errors.ErrUnsupported) true.
func (e *UnsupportedError) Is(target error) bool { return target == errors.ErrUnsupported }

// ResultNotKeptError says which key was executed before without its result having
// been kept, so that there is none to return. It matches [ErrResultNotKept].
type ResultNotKeptError struct {
	Key string
}

func (e *ResultNotKeptError) Error() string {
	return fmt.Sprintf("keyturn: %q was executed before, and its result was not kept", e.Key)
}

// Is makes errors.Is(err, ErrResultNotKept) true.
func (e *ResultNotKeptError) Is(target error) bool { return target == ErrResultNotKept }
