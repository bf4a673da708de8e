package sdktest

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/trace"

	"github.com/keyturn/keyturn/store/memstore"
	"github.com/keyturn/keyturn/tracing/semconv"
)

// TestWaitsLeadToTheirTraces: a histogram's exemplars are spans, so that from a
// slow bucket one click leads to a wait that was in it.
func TestWaitsLeadToTheirTraces(t *testing.T) {
	o := watch(t)
	eng := o.engine(t, memstore.New())
	ctx, root := o.tracers.Tracer("test").Start(context.Background(), "request")
	must(t, eng.Do(ctx, "user:status:42", func(context.Context) error { return nil }))
	root.End()
	for name, span := range map[string]string{semconv.MetricWait: semconv.SpanAcquire, semconv.MetricHold: semconv.SpanHold} {
		for _, p := range o.metrics(t)[name].Data.(metricdata.Histogram[float64]).DataPoints {
			want := o.named(span)[0].SpanContext()
			if len(p.Exemplars) != 1 || trace.SpanID(p.Exemplars[0].SpanID) != want.SpanID() || trace.TraceID(p.Exemplars[0].TraceID) != want.TraceID() {
				t.Errorf("%s: exemplars %v, want %s", name, p.Exemplars, want.SpanID())
			}
		}
	}
}
