package tracing

import (
	"context"

	"go.opentelemetry.io/otel/trace"

	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/tracing/semconv"
)

// onceStart begins the execution's span, which becomes the parent of the spans of its
// acquisition and hold.
func (o *observer) onceStart(ctx context.Context, x observe.Execution) context.Context {
	ctx, span := o.start(ctx, &o.executing, semconv.SpanOnce, place{x.Rule, o.storeName(x.Store)}, false)
	if span != nil {
		span.SetAttributes(o.keys.name(x.Key, x.Rule))
		markShadow(span, x.Shadow)
	}
	return ctx
}

// onceEnd ends the execution's span. A duplicate's span gets a link to the execution whose
// result it gets.
func (o *observer) onceEnd(ctx context.Context, x observe.Execution, out observe.Outcome, err error) {
	if out.Duplicate {
		o.metrics.add(ctx, o.metrics.duplicates, labels{rule: x.Rule, store: o.storeName(x.Store), shadow: x.Shadow})
	}
	if span := o.executing.running(ctx); span != nil {
		if to, ok := o.link(out.Trace, semconv.LinkExecutedBy); ok {
			span.AddLink(to)
		}
		if out.ResultNotKept {
			span.SetAttributes(semconv.NotKeptKey.Bool(true))
		}
		executed(ctx, x.Key, span.ran.Load(), out, err).end(span)
	}
}

// noteRun notes on the span of the innermost execution, if there is one, that its function is
// about to run. From then on, an error is the function's own. Acquisitions within the function
// note it again, which changes nothing.
func (o *observer) noteRun(ctx context.Context) {
	if span := o.executing.running(ctx); span != nil {
		span.ran.Store(true)
	}
}

// unlocked marks the span that is current when the work runs: the execution's, or the caller's.
func (o *observer) unlocked(ctx context.Context, a observe.Acquisition, err error) {
	if !a.Shadow { // a shadow has no function to run
		o.noteRun(ctx)
	}
	at, errorType := place{a.Rule, o.storeName(a.Store)}, refused(err).errorType
	o.metrics.add(ctx, o.metrics.unlocked, labels{rule: at.rule, mode: modeOf(a.Claims), store: at.store, errorType: errorType, shadow: a.Shadow})
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() || a.Shadow {
		return
	}
	attrs := append(o.keys.describe(a.Claims, a.Rule), at.attributes()...) // the span may be the caller's, without our attributes
	span.SetAttributes(semconv.UnlockedKey.Bool(true))
	span.AddEvent(semconv.EventUnlocked, trace.WithAttributes(append(attrs, semconv.ErrorTypeKey.String(errorType))...))
}
