package lockasynq

import (
	"context"
	"maps"

	"github.com/hibiken/asynq"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// TraceHeaders returns a copy of headers (nil: none) with the trace of ctx, in the format of
// the program's otel.SetTextMapPropagator. Without such a propagator, nothing is added. With
// [Trace] on the worker's side, the task's waits and locks are in the trace of the code that
// enqueued it:
//
//	task := asynq.NewTaskWithHeaders("im:status", payload, lockasynq.TraceHeaders(ctx, nil))
//
// A header that already has one of the propagator's names, such as traceparent, is replaced.
func TraceHeaders(ctx context.Context, headers map[string]string) map[string]string {
	carrier := make(propagation.MapCarrier, len(headers)+2)
	maps.Copy(carrier, headers)
	otel.GetTextMapPropagator().Inject(ctx, carrier)
	return carrier
}

// Trace is an [asynq.MiddlewareFunc] that puts the trace of a task's headers into the handler's
// context. Pass it to [asynq.ServeMux.Use] before [Locks.Middleware]. It does not change a
// context that has a span already, from a tracing middleware outside of this one.
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
