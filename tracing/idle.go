package tracing

import (
	"context"
	"reflect"
	"sync/atomic"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"
)

// idle remembers that the program has no tracing, so that it does not pay for
// spans that are none: OpenTelemetry's global tracer allocates for each, also
// while nobody has set a provider. As soon as somebody does, otel's answer is
// another one, and spans are begun again.
type idle struct {
	watching bool                                 // the global provider, not one of WithTracerProvider
	provider atomic.Pointer[trace.TracerProvider] // that was found to do nothing; nil: none was
	skipped  atomic.Uint32
}

// probeEvery is how often a span is begun all the same: an instrumentation from
// outside of the program may turn the same provider on.
const probeEvery = 256

// skips says that a span would be none.
func (i *idle) skips() bool {
	p := i.provider.Load()
	return p != nil && otel.GetTracerProvider() == *p && i.skipped.Add(1)%probeEvery != 0
}

// start begins a span, and learns from what it gets: one that is real has an id
// of its own, also where a sampler dropped it.
func (i *idle) start(ctx context.Context, t trace.Tracer, name string, opts []trace.SpanStartOption) (context.Context, trace.Span) {
	if !i.watching {
		return t.Start(ctx, name, opts...)
	}
	asked := otel.GetTracerProvider() // before: it may be another one after
	in, span := t.Start(ctx, name, opts...)
	switch real := span.SpanContext().SpanID() != trace.SpanContextFromContext(ctx).SpanID(); {
	case real:
		i.provider.Store(nil)
	case reflect.TypeOf(asked).Comparable():
		i.provider.Store(&asked)
	}
	return in, span
}
