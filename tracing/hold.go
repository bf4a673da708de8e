package tracing

import (
	"context"
	"errors"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/keyturn/keyturn/core"
)

// HoldStart begins the hold's span, under the caller's: next to the
// acquisition's, not within it.
func (o *Observer) HoldStart(ctx context.Context, lease *core.Lease) context.Context {
	ctx, span := o.start(ctx, &o.holding, SpanHold, lease.Rule())
	if span != nil {
		span.SetAttributes(o.keys.describe(lease.Claims(), lease.Rule())...)
		span.SetAttributes(
			TokenKey.Int64(int64(lease.Token())), // microseconds: no overflow in sight
			TTLKey.Float64(lease.TTL().Seconds()),
		)
	}
	return ctx
}

// Renewed adds an event for a renewal that failed or came late: by a tenth of
// the TTL, which is what is left between two tries when the store fails. A
// loss is left to HoldEnd, which has come first.
func (o *Observer) Renewed(lease *core.Lease, late time.Duration, err error) {
	if err == nil && late < lease.TTL()/10 || errors.Is(err, core.ErrLeaseLost) {
		return
	}
	span := o.holding.running(lease.Context())
	switch {
	case span == nil || !span.IsRecording(): // it was released meanwhile
	case err != nil:
		span.AddEvent(EventRenewalFailed, trace.WithAttributes(ErrorTypeKey.String(renewalError(err))))
	default:
		span.AddEvent(EventRenewedLate, trace.WithAttributes(LateKey.Float64(late.Seconds())))
	}
}

// renewalError classifies what a store said to a renewal. A context's error is
// the engine's bound on a silent store: nobody cancels a renewal.
func renewalError(err error) string {
	for _, silent := range []error{core.ErrUnavailable, context.DeadlineExceeded, context.Canceled} {
		if errors.Is(err, silent) {
			return ErrorUnavailable
		}
	}
	return ErrorOther
}

// HoldEnd ends the hold's span.
func (o *Observer) HoldEnd(ctx context.Context, _ *core.Lease, err error) {
	span := o.holding.running(ctx)
	if span == nil {
		return
	}
	var lost *core.LeaseLostError
	if errors.As(err, &lost) {
		span.SetAttributes(LossReasonKey.String(strings.ReplaceAll(string(lost.Reason), " ", "_")))
		span.AddEvent(EventLost)
	}
	held(err).end(span)
}
