package tracing

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/trace"
)

// LogHandler returns a handler that adds trace_id and span_id to the records
// that are logged with a context in a trace, and hands them on to next: so the
// engine's own lines (core.WithLogger) and the handlers' can be found from a
// trace, and the other way round. The names are those of OpenTelemetry's
// "Trace Context in non-OTLP Log Formats".
//
//	core.WithLogger(slog.New(tracing.LogHandler(slog.Default().Handler())))
//
// A program that sends its logs over OTLP has this from the otelslog bridge
// already. nil stands for the default logger's handler at the time of the call.
func LogHandler(next slog.Handler) slog.Handler {
	if next == nil {
		next = slog.Default().Handler()
	}
	return logHandler{next}
}

type logHandler struct{ slog.Handler }

func (h logHandler) Handle(ctx context.Context, r slog.Record) error {
	if in := trace.SpanContextFromContext(ctx); in.IsValid() {
		r = r.Clone() // its attributes may be another handler's, too
		r.AddAttrs(slog.String("trace_id", in.TraceID().String()), slog.String("span_id", in.SpanID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.Handler.WithAttrs(attrs)}
}

func (h logHandler) WithGroup(name string) slog.Handler {
	return logHandler{h.Handler.WithGroup(name)}
}
