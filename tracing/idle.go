package tracing

import (
	"context"
	"reflect"
	"sync/atomic"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"
)

// idle remembers that the program has no tracing, so that it does not pay for spans that are
// dropped. OpenTelemetry's global tracer allocates for each span, even if nobody has set a
// provider. As soon as somebody sets one, otel returns another provider, and spans are begun
// again.
type idle struct {
	watching bool                                 // the global provider is used, not one of WithTracerProvider
	provider atomic.Pointer[trace.TracerProvider] // the provider that was found to do nothing; nil: none
	skipped  atomic.Uint32
}

// probeEvery is how often a span is begun in spite of that: an instrumentation from outside the
// program may turn the same provider on.
const probeEvery = 256

// skips reports whether a span would be dropped.
func (i *idle) skips() bool {
	p := i.provider.Load()
	return p != nil && otel.GetTracerProvider() == *p && i.skipped.Add(1)%probeEvery != 0
}

// start begins a span and looks at it. A real span has an id of its own, even if a sampler
// dropped it.
func (i *idle) start(ctx context.Context, t trace.Tracer, name string, opts []trace.SpanStartOption) (context.Context, trace.Span) {
	if !i.watching {
		return t.Start(ctx, name, opts...)
	}
	asked := otel.GetTracerProvider() // asked before the start, because it may change during the start
	in, span := t.Start(ctx, name, opts...)
	switch real := span.SpanContext().SpanID() != trace.SpanContextFromContext(ctx).SpanID(); {
	case real:
		i.provider.Store(nil)
	case reflect.ValueOf(asked).Comparable():
		i.provider.Store(&asked)
	}
	return in, span
}
