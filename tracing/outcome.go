package tracing

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/codes"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/internal/refusal"
	"github.com/keyturn/keyturn/tracing/semconv"
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
	case errors.Is(err, observe.ErrNotRehearsed):
		return verdict{outcome: semconv.OutcomeNotRehearsed}
	case err != nil:
		return refused(err)
	case lease == nil:
		return verdict{outcome: semconv.OutcomeDuplicate}
	case lease.Depth() > 1:
		return verdict{outcome: semconv.OutcomeNested}
	}
	return verdict{outcome: semconv.OutcomeGranted}
}

// refusals has one row for each kind of refusal. A new row begins with a new Kind in
// internal/refusal.
var refusals = map[refusal.Kind]verdict{
	refusal.Canceled:            {outcome: semconv.OutcomeCanceled},
	refusal.DeadlineExceeded:    {outcome: semconv.OutcomeDeadline},
	refusal.KeyInvalid:          {semconv.OutcomeError, semconv.ErrorInvalidKey},
	refusal.TooManyWaiters:      {outcome: semconv.OutcomeTooManyWaiters},
	refusal.WaitTimeout:         {outcome: semconv.OutcomeWaitTimeout},
	refusal.Held:                {outcome: semconv.OutcomeHeld},
	refusal.LeaseLost:           {semconv.OutcomeLost, semconv.ErrorLeaseLost},
	refusal.LostByClose:         {semconv.OutcomeLost, semconv.ErrorLeaseLost},
	refusal.FingerprintMismatch: {outcome: semconv.OutcomeMismatch},
	refusal.ResultNotKept:       {semconv.OutcomeError, semconv.ErrorOther},
	refusal.OutcomeUnknown:      {semconv.OutcomeUnknown, semconv.ErrorOutcomeUnknown},
	refusal.RolledBack:          {outcome: semconv.OutcomeRolledBack},
	refusal.Unavailable:         {semconv.OutcomeUnavailable, semconv.ErrorUnavailable},
	refusal.Closed:              {semconv.OutcomeClosed, semconv.ErrorClosed},
	refusal.Deadlock:            {semconv.OutcomeError, semconv.ErrorDeadlock},
	refusal.Panicked:            {semconv.OutcomeError, semconv.ErrorPanic},
	refusal.Forbidden:           {semconv.OutcomeError, semconv.ErrorOther}, // the engine never sees it
	refusal.Internal:            {semconv.OutcomeError, semconv.ErrorOther},
}

// refused returns the verdict for the error of an acquisition or a lease.
func refused(err error) verdict { return refusals[refusal.Of(err)] }

// held returns the verdict on a hold.
func held(err error) verdict {
	if err == nil {
		return verdict{outcome: semconv.OutcomeReleased}
	}
	return refused(err)
}

// executed returns the verdict on an execution under the caller's ctx. ran says whether its
// function was called.
func executed(ctx context.Context, key string, ran bool, out observe.Outcome, err error) verdict {
	switch {
	case out.Duplicate:
		return verdict{outcome: semconv.OutcomeDuplicate}
	case err == nil:
		return verdict{outcome: semconv.OutcomeExecuted}
	case ran:
		return failed(ctx, key, err)
	case errors.Is(err, core.ErrHeld):
		return verdict{outcome: semconv.OutcomeInFlight}
	}
	return refused(err)
}

// failed returns the verdict on an execution whose function ran. It tells the engine's error
// from the function's own, which may be about another lease: therefore it compares the key.
func failed(ctx context.Context, key string, err error) verdict {
	var lost *core.LeaseLostError
	switch {
	case errors.Is(err, observe.ErrPanicked):
		return verdict{semconv.OutcomeFailed, semconv.ErrorPanic}
	case errors.As(err, &lost) && lost.Key == key:
		return verdict{semconv.OutcomeLost, semconv.ErrorLeaseLost}
	case errors.Is(err, core.ErrOutcomeUnknown):
		return verdict{semconv.OutcomeUnknown, semconv.ErrorOutcomeUnknown}
	case errors.Is(err, core.ErrRolledBack):
		return refusals[refusal.RolledBack]
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return refused(ctx.Err())
	}
	return verdict{semconv.OutcomeFailed, semconv.ErrorHandler}
}

// end writes the verdict on the span and ends it. It leaves out the error's text, which may
// quote the key or the address of a server.
func (v verdict) end(span *running) {
	defer span.End()
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(semconv.OutcomeKey.String(v.outcome))
	if v.errorType != "" {
		span.SetAttributes(semconv.ErrorTypeKey.String(v.errorType))
		span.SetStatus(codes.Error, "")
	}
}
