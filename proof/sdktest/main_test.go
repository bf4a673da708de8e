package sdktest

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/tracing"
	"github.com/keyturn/keyturn/tracing/semconv"
)

func TestMain(m *testing.M) {
	otel.SetTextMapPropagator(propagation.TraceContext{})
	goleak.VerifyTestMain(m)
}

// patience is for what has to happen; a busy machine may need seconds.
const patience = 20 * time.Second

func bounded(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// observed is a program's telemetry: an SDK whose spans and measurements stay
// here.
type observed struct {
	*spans
	tracers *sdktrace.TracerProvider
	reader  *sdkmetric.ManualReader
	meters  *sdkmetric.MeterProvider
	obs     observe.Hooks
}

func watch(t testing.TB) *observed {
	t.Helper()
	o := &observed{spans: &spans{}, reader: sdkmetric.NewManualReader()}
	o.tracers = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(o.spans))
	// Without a limit: the SDK's would hide what grows.
	o.meters = sdkmetric.NewMeterProvider(sdkmetric.WithReader(o.reader), sdkmetric.WithCardinalityLimit(0))
	var err error
	o.obs, err = tracing.New(tracing.WithTracerProvider(o.tracers), tracing.WithMeterProvider(o.meters))
	must(t, err)
	return o
}

// engine makes an engine that o observes, and that ends with the test.
func (o *observed) engine(t testing.TB, store driver.Store) *core.Engine {
	t.Helper()
	eng, err := core.New(store, core.WithHooks(o.obs), core.WithLogger(slog.New(slog.DiscardHandler)))
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		must(t, eng.Close(ctx))
	})
	return eng
}

// metrics collects what was measured.
func (o *observed) metrics(t testing.TB) map[string]metricdata.Metrics {
	t.Helper()
	var all metricdata.ResourceMetrics
	must(t, o.reader.Collect(context.Background(), &all))
	byName := make(map[string]metricdata.Metrics)
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			byName[m.Name] = m
		}
	}
	return byName
}

// conflicts is how many requests have found their key held. The spans of requests
// under way are no place to look: the SDK does not guard what it gave out of them.
func (o *observed) conflicts(t testing.TB) (sum int64) {
	t.Helper()
	counted, ok := o.metrics(t)[semconv.MetricConflicts].Data.(metricdata.Sum[int64])
	if !ok {
		return 0
	}
	for _, p := range counted.DataPoints {
		sum += p.Value
	}
	return sum
}

// must fails the test at once, and await waits for a condition.
var must, check, await = checktest.Must, checktest.That, checktest.Eventually

func want(t *testing.T, err, target error) {
	t.Helper()
	check(t, errors.Is(err, target), "error %v, want %v", err, target)
}

// seen is a lease as hooks see it, for tests that call them.
type seen struct{ *core.Lease }

func (seen) Rule() string    { return "set-status" }
func (seen) Store() string   { return "memory" }
func (seen) Depth() int      { return 1 }
func (seen) HandedOff() bool { return false }
func (seen) Lingered() bool  { return false }
func (seen) Shadow() bool    { return false }
func (seen) Early() bool     { return false }
