package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/keyturn/keyturn/core"
)

// LinkKey is on every link, and says what it leads to.
const LinkKey = attribute.Key("keyturn.link")

// Values of [LinkKey].
const (
	LinkBlockedBy  = "blocked_by"  // acquire: to the request that is in the way
	LinkExecutedBy = "executed_by" // once: to the execution whose result this is
)

// mostLinks is how many holders a wait shows.
const mostLinks = 8

var _ core.Tracer = (*Observer)(nil)

// traceparent is the header of W3C Trace Context, and the form in which a trace
// is kept with a lease and a record.
const traceparent = "traceparent"

// Trace returns the span of ctx as a traceparent of W3C Trace Context (level 1),
// whatever propagator the program has, so that all processes that share a store
// read each other's; "" if it is not sampled, as a link to it would lead
// nowhere.
func (o *Observer) Trace(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return ""
	}
	carrier := make(propagation.MapCarrier, 1)
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier[traceparent]
}

// link gives the link to what Trace wrote, perhaps in another process, perhaps
// something else than a traceparent: then ok is false.
func link(text, kind string) (_ trace.Link, ok bool) {
	if text == "" {
		return trace.Link{}, false
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{traceparent: text})
	to := trace.SpanContextFromContext(ctx)
	return trace.Link{SpanContext: to, Attributes: []attribute.KeyValue{LinkKey.String(kind)}}, to.IsValid()
}
