package sdktest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/store/memstore"
	"github.com/keyturn/keyturn/tracing"
	"github.com/keyturn/keyturn/tracing/semconv"
)

// series counts the series of a metric.
func series(m metricdata.Metrics) int {
	switch data := m.Data.(type) {
	case metricdata.Histogram[float64]:
		return len(data.DataPoints)
	case metricdata.Sum[int64]:
		return len(data.DataPoints)
	}
	return -1
}

// TestSeriesDoNotGrowWithTheKeys: 100 000 keys, each held and asked for
// in vain, and some executed twice.
func TestSeriesDoNotGrowWithTheKeys(t *testing.T) {
	o := watch(t)
	var err error
	o.obs, err = tracing.New(tracing.WithTracerProvider(noop.NewTracerProvider()), tracing.WithMeterProvider(o.meters))
	if err != nil {
		t.Fatal(err)
	}
	store := memstore.New()
	eng, other := o.engine(t, store), o.engine(t, store.Peer())
	ctx := context.Background()
	play := func(i int) {
		key := fmt.Sprint("user:status:", i)
		err := eng.Do(ctx, key, func(context.Context) error {
			if _, err := other.TryAcquire(ctx, key); !errors.Is(err, core.ErrHeld) {
				t.Errorf("%s: %v", key, err)
			}
			return nil
		}, core.WithRule("set-status"))
		if err != nil {
			t.Error(err)
		}
		for range 2 * (1 - min(i%10, 1)) { // of every tenth key: the race detector is slow
			_, err := eng.Once(ctx, "msg:"+key, func(context.Context) ([]byte, error) { return nil, nil }, core.WithRule("deliver"))
			if err != nil {
				t.Error(err)
			}
		}
	}
	count := func() map[string]int {
		counts := make(map[string]int)
		for name, m := range o.metrics(t) {
			counts[name] = series(m)
		}
		return counts
	}
	play(0)
	few := count()
	const keys = 100_000
	for i := range keys {
		play(i + 1)
	}
	many := count()
	if fmt.Sprint(few) != fmt.Sprint(many) {
		t.Errorf("series after one key: %v\nafter %d: %v", few, keys+1, many)
	}
	total := 0
	for name, n := range many {
		if n < 1 {
			t.Errorf("%s has %d series", name, n)
		}
		total += n
	}
	if total == 0 || total > 80 {
		t.Errorf("%d series", total)
	}
	if n := o.conflicts(t); n != keys+1 {
		t.Errorf("%d conflicts, want %d", n, keys+1)
	}
}

// TestWaitsLeadToTheirTraces: a histogram's exemplars are spans, so that from a
// slow bucket one click leads to a wait that was in it.
func TestWaitsLeadToTheirTraces(t *testing.T) {
	o := watch(t)
	eng := o.engine(t, memstore.New())
	ctx, root := o.tracers.Tracer("test").Start(context.Background(), "request")
	if err := eng.Do(ctx, "user:status:42", func(context.Context) error { return nil }); err != nil {
		t.Fatal(err)
	}
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

// TestViewsMayDropMetrics, and then those are not measured.
func TestViewsMayDropMetrics(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	drop := sdkmetric.NewView(sdkmetric.Instrument{Name: "keyturn.*"}, sdkmetric.Stream{Aggregation: sdkmetric.AggregationDrop{}})
	obs, err := tracing.New(tracing.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithView(drop))))
	if err != nil {
		t.Fatal(err)
	}
	o := &observed{reader: reader, obs: obs}
	if err := o.engine(t, memstore.New()).Do(context.Background(), "k", func(context.Context) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if got := o.metrics(t); len(got) > 0 {
		t.Errorf("measured %v", got)
	}
}
