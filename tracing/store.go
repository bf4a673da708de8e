package tracing

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/observe"
)

// storeCalled measures what the store took. A refusal because somebody else has
// the key is no error of the store's.
func (o *observer) storeCalled(store, op string, took time.Duration, err error) {
	o.metrics.record(context.Background(), o.metrics.store, took.Seconds(), labels{store: o.storeName(store), operation: op, errorType: storeError(op, err)})
}

// storeImpaired counts the stores of this process that are impaired now. Why is in the log.
func (o *observer) storeImpaired(store string, err error) {
	by := int64(1)
	if err == nil {
		by = -1
	}
	o.metrics.change(context.Background(), o.metrics.impaired, by, labels{store: o.storeName(store)})
}

// storeName is what an engine says of its store, unless [WithAttributes] says it
// for all.
func (o *observer) storeName(name string) string {
	if o.storeGiven {
		return ""
	}
	return name
}

// storeError classifies what the store said. Where the engine alone bounds the
// operation, its end is the silence of the store; in the others it may be the
// caller's.
func storeError(op string, err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, core.ErrLeaseLost):
		return ErrorLeaseLost
	case op == "renew" || op == "release" || op == "complete":
		return renewalError(err)
	case errors.Is(err, core.ErrUnavailable): // also where it left the outcome unknown
		return ErrorUnavailable
	}
	return refused(err).errorType
}

// debtEnds is what may become of a release that the store has not answered.
var debtEnds = []observe.DebtState{observe.DebtPaid, observe.DebtExpired, observe.DebtClosed, observe.DebtDropped}

func ended(l labels, how observe.DebtState) labels {
	l.outcome = string(how)
	return l
}

// owed counts the releases that the store has not answered, and what becomes of them.
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

// forced counts it, and adds an event to the span in which somebody did it. The
// reason may have names in it, and is left to the logs.
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
	attrs := []attribute.KeyValue{o.keys.name(r.Key, rule), HoldersKey.Int(len(r.Holders))}
	span.AddEvent(EventForced, trace.WithAttributes(append(attrs, place{store: store}.attributes()...)...))
}
