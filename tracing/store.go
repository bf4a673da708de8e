package tracing

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/tracing/semconv"
)

// storeCalled measures the time that the store took. A refusal because somebody else has the
// key is no error of the store.
func (o *observer) storeCalled(store, op string, took time.Duration, err error) {
	o.metrics.record(context.Background(), o.metrics.store, took.Seconds(), labels{store: o.storeName(store), operation: op, errorType: storeError(op, err)})
}

// storeImpaired counts the stores of this process that are impaired now. The log has the
// reason.
func (o *observer) storeImpaired(store string, err error) {
	by := int64(1)
	if err == nil {
		by = -1
	}
	o.metrics.change(context.Background(), o.metrics.impaired, by, labels{store: o.storeName(store)})
}

// storeName is the name that an engine gives for its store, unless [WithAttributes] sets
// another one for all.
func (o *observer) storeName(name string) string {
	if o.storeGiven {
		return ""
	}
	return name
}

// storeError classifies the store's error. For operations that only the engine bounds, a
// context's error means a silent store. For the others it may be the caller's.
func storeError(op string, err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, core.ErrLeaseLost):
		return semconv.ErrorLeaseLost
	case op == "renew" || op == "release" || op == "complete":
		return renewalError(err)
	case errors.Is(err, core.ErrUnavailable): // including errors that left the outcome unknown
		return semconv.ErrorUnavailable
	}
	return refused(err).errorType
}

// debtEnds are the ways in which an unanswered release may end.
var debtEnds = []observe.DebtState{observe.DebtPaid, observe.DebtExpired, observe.DebtClosed, observe.DebtDropped}

func ended(l labels, how observe.DebtState) labels {
	l.outcome = string(how)
	return l
}

// owed counts the releases that the store has not answered, and how they end.
func (o *observer) owed(ctx context.Context, d observe.Debt) {
	l := labels{rule: d.Rule, store: o.storeName(d.Store)}
	switch d.State {
	case observe.DebtOwed:
		o.metrics.change(ctx, o.metrics.owed, 1, l)
		return
	case observe.DebtPaid, observe.DebtExpired, observe.DebtClosed:
		o.metrics.change(ctx, o.metrics.owed, -1, l)
	}
	o.metrics.add(ctx, o.metrics.unanswered, ended(l, d.State))
}

// lingered counts the leases that linger.
func (o *observer) lingered(l observe.Linger) {
	change := int64(-1)
	if l.State == observe.LingerBegun {
		change = 1
	}
	o.metrics.change(context.Background(), o.metrics.lingering, change, labels{rule: l.Rule, store: o.storeName(l.Store)})
}

// forced counts a forced release, and adds an event to the span in which an operator did it.
// The reason may contain names, so only the log has it.
func (o *observer) forced(ctx context.Context, r observe.Removal) {
	op, rule := "forget", ""
	if len(r.Holders) > 0 {
		op, rule = "force", r.Holders[0].Rule
	}
	store := o.storeName(r.Store)
	o.metrics.add(ctx, o.metrics.forced, labels{store: store, operation: op})
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	attrs := []attribute.KeyValue{o.keys.name(r.Key, rule), semconv.HoldersKey.Int(len(r.Holders))}
	span.AddEvent(semconv.EventForced, trace.WithAttributes(append(attrs, place{store: store}.attributes()...)...))
}
