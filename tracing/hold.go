package tracing

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/tracing/semconv"
)

// holdStart begins the hold's span. Its parent is the caller's span, so it is a sibling of the
// acquisition's.
func (o *observer) holdStart(ctx context.Context, lease observe.Lease) context.Context {
	at := place{lease.Rule(), o.storeName(lease.Store())}
	ctx, holding := o.start(ctx, &o.holding, semconv.SpanHold, at, o.metrics.countsHolds(ctx))
	if holding == nil {
		return ctx
	}
	// The mode stays that of the grant, even if the holder shares the key later: the gauge must
	// be decreased under the labels under which it was increased.
	holding.labels = labels{rule: at.rule, mode: modeOf(lease.Claims()), store: at.store, shadow: lease.Shadow()}
	o.metrics.change(ctx, o.metrics.held, 1, holding.labels)
	if holding.IsRecording() {
		holding.SetAttributes(o.keys.describe(lease.Claims(), lease.Rule())...)
		markShadow(holding, lease.Shadow())
		holding.SetAttributes(
			semconv.TokenKey.Int64(int64(lease.Token())), // a token in microseconds is far from an overflow
			semconv.TTLKey.Float64(lease.TTL().Seconds()),
		)
		if o.owners {
			holding.SetAttributes(semconv.OwnerKey.String(lease.Owner()))
		}
	}
	return ctx
}

// renewed counts the answer. It adds an event for a renewal that failed, or that was late by a
// tenth of the TTL, which is the pause between two tries while the store fails. It ignores a
// loss, which HoldEnd has reported before.
func (o *observer) renewed(lease observe.Lease, late time.Duration, err error) {
	ctx := lease.Context()
	o.metrics.renewed(ctx, labels{rule: lease.Rule(), store: o.storeName(lease.Store()), shadow: lease.Shadow()}, late.Seconds(), err)
	if err == nil && late < lease.TTL()/10 || errors.Is(err, core.ErrLeaseLost) {
		return
	}
	holding := o.holding.running(ctx)
	switch {
	case holding == nil || !holding.IsRecording(): // the lease was released meanwhile
	case err != nil:
		holding.AddEvent(semconv.EventRenewalFailed, trace.WithAttributes(semconv.ErrorTypeKey.String(renewalError(err))))
	default:
		holding.AddEvent(semconv.EventRenewedLate, trace.WithAttributes(semconv.LateKey.Float64(late.Seconds())))
	}
}

// extended adds an event for an extension: with the lease as it is now, or with the outcome if
// the extension failed.
func (o *observer) extended(lease observe.Lease, err error) {
	holding := o.holding.running(lease.Context())
	switch {
	case holding == nil || !holding.IsRecording(): // the lease was released meanwhile
	case err == nil:
		holding.AddEvent(semconv.EventExtended, trace.WithAttributes(
			semconv.TTLKey.Float64(lease.TTL().Seconds()), semconv.ModeKey.String(modeOf(lease.Claims()))))
	default:
		v := held(err)
		attrs := []attribute.KeyValue{semconv.OutcomeKey.String(v.outcome)}
		if v.errorType != "" {
			attrs = append(attrs, semconv.ErrorTypeKey.String(v.errorType))
		}
		holding.AddEvent(semconv.EventExtended, trace.WithAttributes(attrs...))
	}
}

// renewalError classifies the store's error for a renewal. A context's error is the engine's
// timeout for a silent store, because nobody cancels a renewal.
func renewalError(err error) string {
	if errors.Is(err, core.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return semconv.ErrorUnavailable
	}
	return semconv.ErrorOther
}

// holdEnd ends the hold's span.
func (o *observer) holdEnd(ctx context.Context, lease observe.Lease, err error) {
	holding := o.holding.running(ctx)
	if holding == nil {
		return
	}
	if holding.IsRecording() && lease.Early() {
		holding.SetAttributes(semconv.EarlyKey.Bool(true))
	}
	v := held(err)
	o.metrics.change(ctx, o.metrics.held, -1, holding.labels)
	o.metrics.record(ctx, o.metrics.hold, time.Since(holding.began).Seconds(), v.on(holding.labels))
	if v.outcome == semconv.OutcomeLost {
		o.lost(ctx, holding, err)
	}
	v.end(holding)
}

func (o *observer) lost(ctx context.Context, holding *running, err error) {
	l := holding.labels
	l.reason = semconv.ErrorOther
	var loss *core.LeaseLostError
	if errors.As(err, &loss) && lossReasons[loss.Reason] != "" {
		l.reason = lossReasons[loss.Reason]
	}
	o.metrics.add(ctx, o.metrics.losses, l)
	if holding.IsRecording() {
		holding.SetAttributes(semconv.LossReasonKey.String(l.reason))
		holding.AddEvent(semconv.EventLost)
	}
}

// lossReasons has the values of [semconv.LossReasonKey]: a short list, whatever the store returns. What is not in it is
// [semconv.ErrorOther].
var lossReasons = map[driver.LossReason]string{
	driver.LossExpired: "expired", driver.LossTaken: "taken", driver.LossMaxHold: "max_hold", driver.LossSuspended: "suspended",
	driver.LossClosed: "closed", driver.LossForced: "forced", driver.LossOuter: "outer",
}
