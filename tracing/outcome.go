package tracing

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/codes"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/internal/refusal"
)

// Values of [OutcomeKey].
const (
	OutcomeGranted        = "granted"
	OutcomeNested         = "nested"
	OutcomeReleased       = "released"
	OutcomeExecuted       = "executed"
	OutcomeDuplicate      = "duplicate"
	OutcomeHeld           = "held"
	OutcomeWaitTimeout    = "wait_timeout"
	OutcomeInFlight       = "in_flight"
	OutcomeTooManyWaiters = "too_many_waiters"
	OutcomeMismatch       = "mismatch"
	OutcomeCanceled       = "canceled"
	OutcomeDeadline       = "deadline"
	OutcomeUnavailable    = "unavailable"
	OutcomeClosed         = "closed"
	OutcomeLost           = "lost"
	OutcomeUnknown        = "unknown"
	OutcomeFailed         = "failed"
	OutcomeError          = "error"
)

// Values of [ErrorTypeKey].
const (
	ErrorUnavailable    = "unavailable"
	ErrorClosed         = "closed"
	ErrorLeaseLost      = "lease_lost"
	ErrorOutcomeUnknown = "outcome_unknown"
	ErrorInvalidKey     = "invalid_key"
	ErrorDeadlock       = "would_deadlock"
	ErrorHandler        = "handler"
	ErrorPanic          = "panic"
	ErrorOther          = "_OTHER"
)

// verdict is how a span ends: an outcome, and an error type if that is an error by
// OpenTelemetry's conventions. A lock that refuses because somebody else has it does its work.
// So does one that obeys its caller's cancel.
type verdict struct{ outcome, errorType string }

// on adds the verdict to the labels of a measurement.
func (v verdict) on(l labels) labels {
	l.outcome, l.errorType = v.outcome, v.errorType
	return l
}

// acquired returns the verdict on an acquisition.
func acquired(lease observe.Lease, err error) verdict {
	switch {
	case err != nil:
		return refused(err)
	case lease == nil:
		return verdict{outcome: OutcomeDuplicate}
	case lease.Depth() > 1:
		return verdict{outcome: OutcomeNested}
	}
	return verdict{outcome: OutcomeGranted}
}

// refusals has one row for each kind of refusal.
var refusals = map[refusal.Kind]verdict{
	refusal.Canceled:            {outcome: OutcomeCanceled},
	refusal.DeadlineExceeded:    {outcome: OutcomeDeadline},
	refusal.KeyInvalid:          {OutcomeError, ErrorInvalidKey},
	refusal.TooManyWaiters:      {outcome: OutcomeTooManyWaiters},
	refusal.WaitTimeout:         {outcome: OutcomeWaitTimeout},
	refusal.Held:                {outcome: OutcomeHeld},
	refusal.LeaseLost:           {OutcomeLost, ErrorLeaseLost},
	refusal.LostByClose:         {OutcomeLost, ErrorLeaseLost},
	refusal.FingerprintMismatch: {outcome: OutcomeMismatch},
	refusal.ResultNotKept:       {OutcomeError, ErrorOther},
	refusal.OutcomeUnknown:      {OutcomeUnknown, ErrorOutcomeUnknown},
	refusal.Unavailable:         {OutcomeUnavailable, ErrorUnavailable},
	refusal.Closed:              {OutcomeClosed, ErrorClosed},
	refusal.Deadlock:            {OutcomeError, ErrorDeadlock},
	refusal.Panicked:            {OutcomeError, ErrorPanic},
	refusal.Internal:            {OutcomeError, ErrorOther},
}

// refused returns the verdict for the error of an acquisition or a lease.
func refused(err error) verdict { return refusals[refusal.Of(err)] }

// held returns the verdict on a hold.
func held(err error) verdict {
	if err == nil {
		return verdict{outcome: OutcomeReleased}
	}
	return refused(err)
}

// executed returns the verdict on an execution under the caller's ctx. ran says whether its
// function was called.
func executed(ctx context.Context, key string, ran bool, out observe.Outcome, err error) verdict {
	switch {
	case out.Duplicate:
		return verdict{outcome: OutcomeDuplicate}
	case err == nil:
		return verdict{outcome: OutcomeExecuted}
	case ran:
		return failed(ctx, key, err)
	case errors.Is(err, core.ErrHeld):
		return verdict{outcome: OutcomeInFlight}
	}
	return refused(err)
}

// failed returns the verdict on an execution whose function ran. It tells the engine's error
// from the function's own, which may be about another lease: therefore it compares the key.
func failed(ctx context.Context, key string, err error) verdict {
	var lost *core.LeaseLostError
	switch {
	case errors.Is(err, observe.ErrPanicked):
		return verdict{OutcomeFailed, ErrorPanic}
	case errors.As(err, &lost) && lost.Key == key:
		return verdict{OutcomeLost, ErrorLeaseLost}
	case errors.Is(err, core.ErrOutcomeUnknown):
		return verdict{OutcomeUnknown, ErrorOutcomeUnknown}
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return refused(ctx.Err())
	}
	return verdict{OutcomeFailed, ErrorHandler}
}

// end writes the verdict on the span and ends it. It leaves out the error's text, which may
// quote the key or the address of a server.
func (v verdict) end(span *running) {
	defer span.End()
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(OutcomeKey.String(v.outcome))
	if v.errorType != "" {
		span.SetAttributes(ErrorTypeKey.String(v.errorType))
		span.SetStatus(codes.Error, "")
	}
}
