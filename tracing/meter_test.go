package tracing_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/keyturn/keyturn/tracing/semconv"
)

// meter is a meter provider that keeps what is measured, so that no SDK is needed here.
type meter struct {
	noop.MeterProvider
	off     func(name string) bool // instruments that nobody collects; nil: none
	refuses bool                   // takes no instruments

	mu      sync.Mutex
	scope   string
	kinds   map[string]instrument
	numbers map[string]map[string][]float64 // by instrument, then by attributes
	begun   map[string]int                  // how often a counter's series was begun, by instrument
}

type instrument struct{ kind, unit, about string }

func newMeter() *meter {
	return &meter{kinds: make(map[string]instrument), numbers: make(map[string]map[string][]float64), begun: make(map[string]int)}
}

func (m *meter) Meter(scope string, _ ...metric.MeterOption) metric.Meter {
	m.scope = scope
	return instruments{meter: m}
}

// instruments is the meter that the provider gives out.
type instruments struct {
	noop.Meter
	*meter
}

func (m *meter) measure(name string, x float64, set attribute.Set) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var labels []string
	for _, kv := range set.ToSlice() {
		labels = append(labels, fmt.Sprintf("%s=%s", kv.Key, kv.Value.Emit()))
	}
	if m.numbers[name] == nil {
		m.numbers[name] = make(map[string][]float64)
	}
	series := strings.Join(labels, " ")
	m.numbers[name][series] = append(m.numbers[name][series], x)
}

func (m *meter) collects(name string) bool { return m.off == nil || !m.off(name) }

type errKind string

func (e errKind) Error() string { return "no " + string(e) }

func (m *meter) make(name, kind, unit, about string) error {
	m.kinds[name] = instrument{kind, unit, about}
	if m.refuses {
		return errKind(kind)
	}
	return nil
}

type (
	histogram struct {
		noop.Float64Histogram
		m    *meter
		name string
	}
	counter struct {
		noop.Int64Counter
		m    *meter
		name string
	}
	gauge struct {
		noop.Int64UpDownCounter
		m    *meter
		name string
	}
)

func (i instruments) Float64Histogram(name string, opts ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	cfg := metric.NewFloat64HistogramConfig(opts...)
	return histogram{m: i.meter, name: name}, i.make(name, "histogram", cfg.Unit(), cfg.Description())
}

func (i instruments) Int64Counter(name string, opts ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	cfg := metric.NewInt64CounterConfig(opts...)
	return counter{m: i.meter, name: name}, i.make(name, "counter", cfg.Unit(), cfg.Description())
}

func (i instruments) Int64UpDownCounter(name string, opts ...metric.Int64UpDownCounterOption) (metric.Int64UpDownCounter, error) {
	cfg := metric.NewInt64UpDownCounterConfig(opts...)
	return gauge{m: i.meter, name: name}, i.make(name, "gauge", cfg.Unit(), cfg.Description())
}

func (h histogram) Enabled(context.Context) bool { return h.m.collects(h.name) }
func (c counter) Enabled(context.Context) bool   { return c.m.collects(c.name) }
func (g gauge) Enabled(context.Context) bool     { return g.m.collects(g.name) }

func (h histogram) Record(_ context.Context, x float64, opts ...metric.RecordOption) {
	h.m.measure(h.name, x, metric.NewRecordConfig(opts).Attributes())
}

func (c counter) Add(_ context.Context, x int64, opts ...metric.AddOption) {
	if x == 0 { // a series that begins: those are not in the texts
		c.m.mu.Lock()
		defer c.m.mu.Unlock()
		c.m.begun[c.name]++
		return
	}
	c.m.measure(c.name, float64(x), metric.NewAddConfig(opts).Attributes())
}

func (g gauge) Add(_ context.Context, x int64, opts ...metric.AddOption) {
	g.m.measure(g.name, float64(x), metric.NewAddConfig(opts).Attributes())
}

// text writes what was measured, one series per line.
func (m *meter) text() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(m.numbers)) {
		for _, labels := range slices.Sorted(maps.Keys(m.numbers[name])) {
			numbers := m.numbers[name][labels]
			if m.kinds[name].kind != "counter" {
				slices.Sort(numbers) // of those at the same moment either may be first
			}
			fmt.Fprintf(&b, "%s {%s} %v\n", name, labels, numbers)
		}
	}
	return b.String()
}

// amiss lists what is counted up and not down again: at the end nobody holds anything or waits.
func (m *meter) amiss() (amiss []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range []string{semconv.MetricHeld, semconv.MetricWaiting} {
		for labels, steps := range m.numbers[name] {
			sum := 0.0
			for _, s := range steps {
				sum += s
			}
			if sum != 0 {
				amiss = append(amiss, fmt.Sprintf("%s {%s} is left at %v", name, labels, sum))
			}
		}
	}
	return amiss
}
