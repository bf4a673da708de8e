package lockasynq_test

import (
	"context"
	"maps"
	"testing"

	"github.com/hibiken/asynq"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/observe"
	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
)

func propagate(t *testing.T) {
	before := otel.GetTextMapPropagator()
	t.Cleanup(func() { otel.SetTextMapPropagator(before) })
	otel.SetTextMapPropagator(propagation.TraceContext{})
}

func spanContext(id byte) trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{id}, SpanID: trace.SpanID{id}, TraceFlags: trace.FlagsSampled,
	})
}

// traceWatcher tells in which trace tasks ask for their keys.
type traceWatcher struct {
	asks chan trace.SpanContext
}

func (w *traceWatcher) hooks() observe.Hooks {
	return observe.Hooks{AcquireStart: w.AcquireStart}
}

func (w *traceWatcher) AcquireStart(ctx context.Context, _ observe.Acquisition) context.Context {
	w.asks <- trace.SpanContextFromContext(ctx)
	return ctx
}

// Not parallel: the propagator is the program's. From the one who enqueues over
// Redis to the lock and the handler.
func TestTraceGoesAlongWithTheTask(t *testing.T) {
	propagate(t)
	q, seen := newQueue(t), &traceWatcher{asks: make(chan trace.SpanContext, 10)}
	l := locks(t, engine(t, nil, core.WithHooks(seen.hooks())), lockasynq.Serialize("t", "{header.user}"))
	handled := make(chan trace.SpanContext, 10)
	mux := asynq.NewServeMux()
	mux.Use(lockasynq.Trace, l.Middleware)
	mux.HandleFunc("t", func(ctx context.Context, _ *asynq.Task) error {
		handled <- trace.SpanContextFromContext(ctx)
		return nil
	})
	q.serve(mux)

	given := map[string]string{"user": "42"}
	ctx := trace.ContextWithSpanContext(context.Background(), spanContext(7))
	q.enqueueTask(asynq.NewTaskWithHeaders("t", nil, lockasynq.TraceHeaders(ctx, given)))
	for what, c := range map[string]chan trace.SpanContext{"lock": seen.asks, "handler": handled} {
		got := receive(t, what, c)
		if got.TraceID() != spanContext(7).TraceID() || got.SpanID() != spanContext(7).SpanID() || !got.IsRemote() || !got.IsSampled() {
			t.Errorf("the %s is in the trace %v, want the producer's", what, got)
		}
	}
	if !maps.Equal(given, map[string]string{"user": "42"}) {
		t.Errorf("the caller's headers were changed to %v", given)
	}

	// A task without a trace, and one whose trace is no such thing.
	for _, headers := range []map[string]string{{"user": "1"}, {"user": "1", "traceparent": "what's this"}} {
		q.enqueueTask(asynq.NewTaskWithHeaders("t", nil, headers))
		<-seen.asks
		if got := receive(t, "the handler", handled); got.IsValid() {
			t.Errorf("headers %v: the handler is in the trace %v, want none", headers, got)
		}
	}
}

func TestTraceLeavesAnOuterSpan(t *testing.T) {
	propagate(t)
	outer := trace.ContextWithSpanContext(context.Background(), spanContext(1))
	producer := trace.ContextWithSpanContext(context.Background(), spanContext(2))
	task := asynq.NewTaskWithHeaders("t", nil, lockasynq.TraceHeaders(producer, nil))
	err := lockasynq.Trace(handler(func(ctx context.Context, _ *asynq.Task) error {
		if got := trace.SpanContextFromContext(ctx); !got.Equal(spanContext(1)) {
			t.Errorf("the handler is in the trace %v, want the outer middleware's", got)
		}
		return nil
	})).ProcessTask(outer, task)
	if err != nil {
		t.Error(err)
	}
}

func TestTraceHeadersWithoutATrace(t *testing.T) {
	propagate(t)
	if got := lockasynq.TraceHeaders(context.Background(), nil); got == nil || len(got) != 0 {
		t.Errorf("headers = %#v, want an empty map", got)
	}
	ctx := trace.ContextWithSpanContext(context.Background(), spanContext(7))
	stale := map[string]string{"traceparent": "stale", "a": "b"}
	if got := lockasynq.TraceHeaders(ctx, stale); got["traceparent"] == "stale" || got["a"] != "b" {
		t.Errorf("headers = %v, want this trace and the rest as it was", got)
	}
}

func TestTraceRefusesNoHandler(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("Trace(nil) did not panic")
		}
	}()
	lockasynq.Trace(nil)
}

var _ asynq.MiddlewareFunc = lockasynq.Trace
