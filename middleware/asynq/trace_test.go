package lockasynq_test

import (
	"context"
	"maps"
	"testing"

	"github.com/hibiken/asynq"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
)

// TestTraceGoesAlongWithTheTask, unless a middleware outside has begun a span. proof/sdktest has a server.
// Not parallel: the propagator is the program's.
func TestTraceGoesAlongWithTheTask(t *testing.T) {
	before := otel.GetTextMapPropagator()
	t.Cleanup(func() { otel.SetTextMapPropagator(before) })
	otel.SetTextMapPropagator(propagation.TraceContext{})
	inTrace := func(id byte) context.Context {
		return trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: trace.TraceID{id}, SpanID: trace.SpanID{id}, TraceFlags: trace.FlagsSampled,
		}))
	}
	given := map[string]string{"traceparent": "stale", "user": "42"}
	headers := lockasynq.TraceHeaders(inTrace(7), given)
	if !maps.Equal(given, map[string]string{"traceparent": "stale", "user": "42"}) || headers["user"] != "42" {
		t.Errorf("the caller's headers are %v now, and the task has %v", given, headers)
	}
	if got := lockasynq.TraceHeaders(context.Background(), nil); got == nil || len(got) != 0 {
		t.Errorf("without a trace: headers %#v, want an empty map", got)
	}
	for name, tt := range map[string]struct {
		ctx     context.Context
		headers map[string]string
		want    byte
	}{
		"the producer's":  {context.Background(), headers, 7},
		"an outer span's": {inTrace(1), headers, 1},
		"none":            {context.Background(), nil, 0},
		"no such thing":   {context.Background(), map[string]string{"traceparent": "what's this"}, 0},
	} {
		var in trace.SpanContext
		err := lockasynq.Trace(handler(func(ctx context.Context, _ *asynq.Task) error {
			in = trace.SpanContextFromContext(ctx)
			return nil
		})).ProcessTask(tt.ctx, asynq.NewTaskWithHeaders("t", nil, tt.headers))
		if want := (trace.TraceID{tt.want}); err != nil || in.TraceID() != want || in.SpanID() != (trace.SpanID{tt.want}) || in.IsSampled() != (tt.want > 0) {
			t.Errorf("%s: in the trace %v, want %v; %v", name, in, want, err)
		}
	}
}

var _ asynq.MiddlewareFunc = lockasynq.Trace
