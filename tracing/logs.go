package tracing

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/trace"
)

// LogHandler returns a handler that adds trace_id and span_id to records that are logged with a
// context in a trace, and passes them to next. So one can find the lines of the engine
// (core.WithLogger) and of the handlers from a trace, and the trace from a line. The names are
// those of OpenTelemetry's "Trace Context in non-OTLP Log Formats".
//
//	core.WithLogger(slog.New(tracing.LogHandler(slog.Default().Handler())))
//
// A program that sends its logs over OTLP has this from the otelslog bridge already. next nil:
// the handler of the default logger at the time of the call.
func LogHandler(next slog.Handler) slog.Handler {
	if next == nil {
		next = slog.Default().Handler()
	}
	return logHandler{next}
}

type logHandler struct{ slog.Handler }

func (h logHandler) Handle(ctx context.Context, r slog.Record) error {
	if in := trace.SpanContextFromContext(ctx); in.IsValid() {
		r = r.Clone() // another handler may share its attributes
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
