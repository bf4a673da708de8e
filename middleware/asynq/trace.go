package lockasynq

import (
	"context"
	"maps"

	"github.com/hibiken/asynq"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// TraceHeaders returns a copy of headers, nil for none, to which the trace of
// ctx is added, in the way of the program's otel.SetTextMapPropagator (without
// that, nothing is added). With [Trace] on the worker's side the task, and the
// waits and locks it has there, are in the trace of who enqueued it:
//
//	task := asynq.NewTaskWithHeaders("im:status", payload, lockasynq.TraceHeaders(ctx, nil))
//
// A header that is there already under one of the propagator's names, such as
// traceparent, is replaced.
func TraceHeaders(ctx context.Context, headers map[string]string) map[string]string {
	carrier := make(propagation.MapCarrier, len(headers)+2)
	maps.Copy(carrier, headers)
	otel.GetTextMapPropagator().Inject(ctx, carrier)
	return carrier
}

// Trace is an [asynq.MiddlewareFunc] that takes the trace from a task's headers
// into the handler's context. Give it to [asynq.ServeMux.Use] before
// [Locks.Middleware]. A context that has a span already, from a tracing
// middleware outside of this one, is left as it is.
//
// It panics if next is nil, as asynq does.
func Trace(next asynq.Handler) asynq.Handler {
	if next == nil {
		panic("lockasynq: nil handler")
	}
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		if !trace.SpanContextFromContext(ctx).IsValid() {
			ctx = otel.GetTextMapPropagator().Extract(ctx, propagation.MapCarrier(task.Headers()))
		}
		return next.ProcessTask(ctx, task)
	})
}
