package tracing_test

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/store/memstore"
	"github.com/keyturn/keyturn/tracing"
)

// heedless has spans that are recorded, and keeps nothing.
type (
	heedless       struct{ silentProvider }
	heedlessTracer struct{ silentTracer }
	heedlessSpan   struct{ noop.Span }
)

func (heedless) Tracer(string, ...trace.TracerOption) trace.Tracer { return heedlessTracer{} }

func (heedlessTracer) Start(ctx context.Context, _ string, _ ...trace.SpanStartOption) (context.Context, trace.Span) {
	return trace.ContextWithSpan(ctx, heedlessSpan{}), heedlessSpan{}
}

func (heedlessSpan) IsRecording() bool { return true }

// BenchmarkDo shows what an observer adds to a lock that costs next to nothing
// itself.
func BenchmarkDo(b *testing.B) {
	for _, bm := range []struct {
		name     string
		provider trace.TracerProvider // nil: no observer
	}{
		{"without", nil},
		{"silent", silentProvider{}},
		{"noop", noop.NewTracerProvider()},
		{"recorded", heedless{}},
	} {
		b.Run(bm.name, func(b *testing.B) {
			var opts []core.EngineOption
			if bm.provider != nil {
				obs := newObserver(b, tracing.WithTracerProvider(bm.provider))
				opts = append(opts, core.WithObserver(obs))
			}
			eng := newEngine(b, memstore.New(), opts...)
			defer eng.Close(context.Background())
			handler := func(context.Context) error { return nil }
			withRule := core.WithRule(rule)
			b.ReportAllocs()
			for b.Loop() {
				if err := eng.Do(context.Background(), key, handler, withRule); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
