package tracing

import (
	"context"
	"net/url"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/keyturn/keyturn/core/driver"
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

// traceparent is the header of W3C Trace Context, and by default the form in
// which a trace is kept with a lease and a record.
const traceparent = "traceparent"

// trace returns the span of ctx in the form of W3C's traceparent, or of
// [WithPropagators], for other processes to link to; "" if it is not sampled, as
// a link to it would lead nowhere.
func (o *observer) trace(ctx context.Context) string {
	in := trace.SpanContextFromContext(ctx)
	if !in.IsSampled() {
		return ""
	}
	// The span alone: whatever else ctx has for propagators, such as baggage, is
	// none of the store's business.
	carrier := make(propagation.MapCarrier, 1)
	o.propagators.Inject(trace.ContextWithSpanContext(context.Background(), in), carrier)
	if text, ok := carrier[traceparent]; ok {
		return text
	}
	fields := make(url.Values, len(carrier))
	for k, v := range carrier {
		fields.Set(k, v)
	}
	if text := fields.Encode(); len(text) <= driver.MaxNoteBytes {
		return text
	}
	return ""
}

// link gives the link to what Trace wrote, perhaps in another process, perhaps
// in a form that is not known here: then ok is false.
func (o *observer) link(text, kind string) (_ trace.Link, ok bool) {
	if text == "" {
		return trace.Link{}, false
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{traceparent: text})
	to := trace.SpanContextFromContext(ctx)
	if !to.IsValid() {
		to = trace.SpanContextFromContext(o.propagators.Extract(context.Background(), fieldsOf(text)))
	}
	return trace.Link{SpanContext: to, Attributes: []attribute.KeyValue{LinkKey.String(kind)}}, to.IsValid()
}

func fieldsOf(text string) propagation.MapCarrier {
	fields, _ := url.ParseQuery(text) // it may be anything; what can be read is there
	carrier := make(propagation.MapCarrier, len(fields))
	for k := range fields {
		carrier[k] = fields.Get(k)
	}
	return carrier
}
