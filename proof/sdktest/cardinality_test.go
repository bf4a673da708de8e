package sdktest

import (
	"context"
	"fmt"
	"testing"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/trace"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/store/memstore"
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

// TestSeriesDoNotGrowWithTheKeys: each key is held, asked for in vain, and executed twice.
func TestSeriesDoNotGrowWithTheKeys(t *testing.T) {
	o := watch(t)
	store := memstore.New()
	eng, other := o.engine(t, store), o.engine(t, store.Peer())
	ctx := context.Background()
	play := func(i int) {
		key := fmt.Sprint("user:status:", i)
		want(t, eng.Do(ctx, key, func(context.Context) error {
			_, err := other.TryAcquire(ctx, key)
			want(t, err, core.ErrHeld)
			return nil
		}, core.WithRule("set-status")), nil)
		for range 2 {
			_, err := eng.Once(ctx, "msg:"+key, func(context.Context) ([]byte, error) { return nil, nil }, core.WithRule("deliver"))
			must(t, err)
		}
	}
	count := func() string {
		counts := make(map[string]int)
		for name, m := range o.metrics(t) {
			counts[name] = series(m)
		}
		return fmt.Sprint(counts)
	}
	play(0)
	few := count()
	const keys = 100
	for i := range keys {
		play(i + 1)
	}
	if many := count(); few != many {
		t.Errorf("series after one key: %v\nafter %d: %v", few, keys+1, many)
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
