package sdktest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/trace"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/author"
	"github.com/keyturn/keyturn/core/coverage"
	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
	"github.com/keyturn/keyturn/store/memstore"
	"github.com/keyturn/keyturn/tracing"
	"github.com/keyturn/keyturn/tracing/semconv"
)

// scrape is what Prometheus gets: the counters' series, with their values.
func scrape(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	must(t, err)
	values := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			if m.GetCounter() != nil {
				values[fmt.Sprintf("%s %s", f.GetName(), strings.Join(labels, " "))] = m.GetCounter().GetValue()
			}
		}
	}
	return values
}

// scraped is an observer whose measurements Prometheus gets.
func scraped(t *testing.T) (*observed, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo(), exporter.WithoutTargetInfo())
	must(t, err)
	obs, err := tracing.New(tracing.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))))
	must(t, err)
	return &observed{obs: obs}, registry
}

// begins checks that series are there, at zero.
func begins(t *testing.T, values map[string]float64, series ...string) {
	t.Helper()
	for _, s := range series {
		v, ok := values[s]
		check(t, ok && v == 0, "%s is at %v (there: %t), want 0 in\n%s", s, v, ok, strings.Join(slices.Sorted(maps.Keys(values)), "\n"))
	}
}

var losses = []string{"expired", "taken", "max_hold", "suspended", "closed", "forced", "outer"}

// TestCountersBeginAtZero: the first collection has each rule,
// before anything has happened. increase() then shows the first loss.
func TestCountersBeginAtZero(t *testing.T) {
	o, registry := scraped(t)
	eng := o.engine(t, memstore.New())
	_, err := lockasynq.New(eng,
		lockasynq.Serialize("index", "index:{payload.id}").KeepLatestBy("{payload.version}"),
		lockasynq.Serialize("cache:", "cache:{payload.id}").OnConflict(lockasynq.Skip),
		lockasynq.Once("message", "msg:{payload.id}"),
		lockasynq.Serialize("read", "doc:{payload.id}", core.WithShared(), core.WithRunUnlocked()),
	)
	must(t, err)
	first := scrape(t, registry)
	for rule, mode := range map[string]string{"index": "exclusive", "cache:": "exclusive", "message": "exclusive", "read": "shared"} {
		for _, reason := range losses {
			begins(t, first, fmt.Sprintf("keyturn_losses_total %s %s %s memory", reason, mode, rule))
		}
		begins(t, first,
			fmt.Sprintf("keyturn_conflicts_total %s %s memory", mode, rule),
			fmt.Sprintf("keyturn_renewals_total renewed %s memory", rule),
			fmt.Sprintf("keyturn_renewals_total unavailable failed %s memory", rule),
			fmt.Sprintf("keyturn_renewals_total lease_lost lost %s memory", rule))
	}
	begins(t, first,
		"keyturn_duplicates_total message memory",
		"keyturn_skipped_total superseded index memory", "keyturn_skipped_total held cache: memory",
		"keyturn_unlocked_total unavailable shared read memory",
		"keyturn_forced_total force memory", "keyturn_forced_total forget memory")
	ctx := context.Background()
	index := core.WithRule("index")
	lease, err := eng.Acquire(ctx, "k", index)
	must(t, err)
	_, err = eng.ForceRelease(ctx, "k", "for a test")
	must(t, err)
	want(t, lease.Release(ctx), core.ErrLeaseLost)
	second := scrape(t, registry)
	for _, series := range []string{"keyturn_losses_total forced exclusive index memory", "keyturn_forced_total force memory"} {
		check(t, second[series] == 1, "%s is at %v, want 1", series, second[series])
	}
	// What happened is counted where it began, and nowhere else.
	for series := range second {
		_, ok := first[series]
		check(t, ok, "%s was not there before", series)
	}
}

// TestUndeclaredRulesBeginWithTheirFirstLease, which comes before its loss.
func TestUndeclaredRulesBeginWithTheirFirstLease(t *testing.T) {
	o, registry := scraped(t)
	eng := o.engine(t, memstore.New())
	n := len(scrape(t, registry))
	check(t, n <= 0, "%d series of nothing", n)
	for _, rule := range []string{"by hand", ""} {
		lease, err := eng.Acquire(context.Background(), "k", core.WithRule(rule))
		must(t, err)
		for _, reason := range losses {
			begins(t, scrape(t, registry), strings.Join(strings.Fields(fmt.Sprintf("keyturn_losses_total %s exclusive %s memory", reason, rule)), " "))
		}
		must(t, lease.Release(context.Background()))
	}
	policy, err := core.NewPolicy(core.WithRule("declared"))
	must(t, err)
	_, err = author.Declare(eng, author.Rule{Policy: policy, About: coverage.Rule{Once: true}, Like: []string{"k"}})
	must(t, err)
	begins(t, scrape(t, registry), "keyturn_losses_total taken exclusive declared memory", "keyturn_duplicates_total declared memory")
}

// TestRulesThatAreTooManyShareASeries, as those do that are measured.
func TestRulesThatAreTooManyShareASeries(t *testing.T) {
	o, registry := scraped(t)
	eng := o.engine(t, memstore.New())
	rules := func(from, to int) {
		for i := from; i < to; i++ {
			policy, err := core.NewPolicy(core.WithRule(fmt.Sprint("user ", i)))
			must(t, err)
			_, err = author.Declare(eng, author.Rule{Policy: policy, About: coverage.Rule{}, Like: []string{"k"}})
			must(t, err)
			must(t, eng.Do(context.Background(), "k", func(context.Context) error { return nil }, policy))
		}
	}
	rules(0, 1100)
	many := len(scrape(t, registry))
	rules(1100, 1500)
	n := len(scrape(t, registry))
	check(t, n == many, "%d series of 1100 rules, %d of 1500", many, n)
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
