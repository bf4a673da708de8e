package tracing_test

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/metric"
	noopmetric "go.opentelemetry.io/otel/metric/noop"
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

// heedlessMeters has instruments that are collected, and keeps nothing.
type (
	heedlessMeters    struct{ noopmetric.MeterProvider }
	heedlessMeter     struct{ noopmetric.Meter }
	heedlessHistogram struct{ noopmetric.Float64Histogram }
	heedlessCounter   struct{ noopmetric.Int64Counter }
	heedlessGauge     struct{ noopmetric.Int64UpDownCounter }
)

func (heedlessMeters) Meter(string, ...metric.MeterOption) metric.Meter { return heedlessMeter{} }

func (heedlessMeter) Float64Histogram(string, ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return heedlessHistogram{}, nil
}

func (heedlessMeter) Int64Counter(string, ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return heedlessCounter{}, nil
}

func (heedlessMeter) Int64UpDownCounter(string, ...metric.Int64UpDownCounterOption) (metric.Int64UpDownCounter, error) {
	return heedlessGauge{}, nil
}

func (heedlessHistogram) Enabled(context.Context) bool { return true }
func (heedlessCounter) Enabled(context.Context) bool   { return true }
func (heedlessGauge) Enabled(context.Context) bool     { return true }

// BenchmarkDo shows what an observer adds to a lock that costs next to nothing
// itself.
func BenchmarkDo(b *testing.B) {
	for _, bm := range []struct {
		name     string
		observed bool
		provider trace.TracerProvider // nil: none is configured
		meters   metric.MeterProvider // nil: none is configured
	}{
		{"without", false, nil, nil},
		{"not configured", true, nil, nil},
		{"measured", true, silentProvider{}, heedlessMeters{}},
		{"recorded and measured", true, heedless{}, heedlessMeters{}},
	} {
		b.Run(bm.name, func(b *testing.B) {
			var opts []core.EngineOption
			if bm.observed {
				obs, err := tracing.New(tracing.WithTracerProvider(bm.provider), tracing.WithMeterProvider(bm.meters))
				if err != nil {
					b.Fatal(err)
				}
				opts = append(opts, core.WithHooks(obs))
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
