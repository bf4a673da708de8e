package tracing

import (
	"context"
	"net/url"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/tracing/semconv"
)

// mostLinks is the maximum number of holders that a wait links to.
const mostLinks = 8

// traceparent is the header of W3C Trace Context. It is the default form in which a trace is
// kept with a lease and a record.
const traceparent = "traceparent"

// trace returns the span of ctx in the form of W3C's traceparent, or of [WithPropagators].
// Other processes link to it. It returns "" for a span that is not sampled, because such a link
// would lead nowhere.
func (o *observer) trace(ctx context.Context) string {
	in := trace.SpanContextFromContext(ctx)
	if !in.IsSampled() {
		return ""
	}
	// Only the span: other values of ctx that propagators know, such as baggage, must not get
	// into the store.
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

// link returns the link to the span that Trace wrote, perhaps in another process. ok is false
// if the form of text is unknown here.
func (o *observer) link(text, kind string) (_ trace.Link, ok bool) {
	if text == "" {
		return trace.Link{}, false
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{traceparent: text})
	to := trace.SpanContextFromContext(ctx)
	if !to.IsValid() {
		to = trace.SpanContextFromContext(o.propagators.Extract(context.Background(), fieldsOf(text)))
	}
	return trace.Link{SpanContext: to, Attributes: []attribute.KeyValue{semconv.LinkKey.String(kind)}}, to.IsValid()
}

func fieldsOf(text string) propagation.MapCarrier {
	fields, _ := url.ParseQuery(text) // text may be anything; fields has what can be read
	carrier := make(propagation.MapCarrier, len(fields))
	for k := range fields {
		carrier[k] = fields.Get(k)
	}
	return carrier
}
