package tracing_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/slogtest"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/tracing"
	"github.com/keyturn/keyturn/tracing/semconv"
)

func TestOptionsAreChecked(t *testing.T) {
	tests := map[string]struct {
		opts []tracing.Option
		want []string // the options at fault
	}{
		"nil options":              {opts: []tracing.Option{nil, nil}},
		"nil providers":            {opts: []tracing.Option{tracing.WithTracerProvider(nil), tracing.WithMeterProvider(nil), tracing.WithPropagators(nil)}},
		"short secret":             {opts: []tracing.Option{tracing.WithKeySecret([]byte("hunter2"))}, want: []string{"WithKeySecret"}},
		"secret just long enough":  {opts: []tracing.Option{tracing.WithKeySecret(make([]byte, 16))}},
		"all mistakes are told of": {opts: []tracing.Option{tracing.WithKeySecret(nil), tracing.WithAttributes(attribute.KeyValue{})}, want: []string{"WithKeySecret", "WithAttributes"}},
	}
	for name, tt := range tests {
		obs, err := tracing.New(tt.opts...)
		check(t, (err != nil) == (len(tt.want) > 0) && (obs.AcquireStart == nil) == (err != nil) && (err == nil || errors.Is(err, core.ErrInvalidOption)), "%s: New gave %+v, %v", name, obs, err)
		for _, option := range tt.want {
			check(t, strings.Contains(fmt.Sprint(err), option) && !strings.Contains(fmt.Sprint(err), "hunter2"), "%s: %v does not name %s, or tells the secret", name, err, option)
		}
	}
}

// TestAttributesAreOnEverySpanFromItsStart, which is what samplers see, and on every measurement: they tell the
// stores of a program apart. What the program calls a store counts more than the store's own name.
func TestAttributesAreOnEverySpanFromItsStart(t *testing.T) {
	for store, opts := range map[string][]tracing.Option{
		"memory": nil,
		"sessions": {
			tracing.WithAttributes(semconv.StoreKey.String("the last option counts")),
			tracing.WithAttributes(semconv.StoreKey.String("sessions"), attribute.Int("shard", 3), semconv.OutcomeKey.String("nonsense")),
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t, opts...)
			starts := 0
			s.rec.drop = func(name string, attrs []attribute.KeyValue) bool {
				if strings.HasPrefix(name, "keyturn.") {
					starts++
					got := collect(attrs)
					check(t, got[semconv.StoreKey].AsString() == store && got[semconv.RuleKey].AsString() == rule && (opts == nil || got["shard"].AsInt64() == 3), "a sampler sees %v at the start of %s", attrs, name)
				}
				return false
			}
			s.want(checktest.ErrorOf(s.eng.Once(s.ctx, key, s.result(0), core.WithRule(rule))), nil)
			s.finish()
			check(t, starts == 3, "%d spans began", starts)
			for _, span := range s.rec.spans {
				check(t, span.attrs[semconv.OutcomeKey].AsString() != "nonsense", "an outcome of the user's is left on %s", span.name)
				check(t, !strings.HasPrefix(span.name, "keyturn.") || span.attrs[semconv.StoreKey].AsString() == store, "%s is on %s, not %s", span.attrs[semconv.StoreKey].AsString(), span.name, store)
			}
			for metric, series := range s.meter.numbers {
				for labels := range series {
					check(t, strings.Contains(labels, "keyturn.store="+store) && strings.Contains(labels, "shard=3") == (opts != nil), "%s has the labels %s", metric, labels)
				}
			}
		})
	}
}

// TestManyRules: rules named after requests by mistake must not fill the memory or become series without end, and
// still are on their spans.
func TestManyRules(t *testing.T) {
	rec, m := newRecorder(), newMeter()
	obs, cached, err := tracing.NewCached(tracing.WithTracerProvider(rec), tracing.WithMeterProvider(m))
	must(t, err)
	call := func(i int) {
		execution := observe.Execution{Key: key, Rule: fmt.Sprint(i)}
		obs.OnceEnd(obs.OnceStart(context.Background(), execution), execution, observe.Outcome{Duplicate: true}, nil)
	}
	for i := range 3000 {
		call(i)
	}
	for i, span := range rec.spans {
		if got := span.attrs[semconv.RuleKey].AsString(); got != fmt.Sprint(i) {
			t.Fatalf("rule %s on the span of rule %d", got, i)
		}
	}
	n := cached()
	check(t, n == 1024, "%d rules kept", n)
	series := m.numbers[semconv.MetricDuplicates]
	check(t, len(series) == 1025 && len(series["keyturn.rule=_OTHER"]) == 3000-1024, "%d series, %d of them for other rules", len(series), len(series["keyturn.rule=_OTHER"]))
	if call(7); len(series["keyturn.rule=7"]) != 2 {
		t.Error("a rule that was there first is no series of its own any more")
	}
	if want := "github.com/keyturn/keyturn/tracing"; rec.scope != want || m.scope != want {
		t.Errorf("scopes %q and %q, want this package", rec.scope, m.scope)
	}
}

func TestLogHandler(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(tracing.LogHandler(slog.NewTextHandler(&out, nil)))
	log.InfoContext(context.Background(), "outside")
	log.With("a", 1).InfoContext(inTrace(1, trace.FlagsSampled), "inside")
	outside, inside, _ := strings.Cut(out.String(), "\n")
	check(t, !strings.Contains(outside, "trace_id"), "no trace, but %s", outside)
	want := "msg=inside a=1 trace_id=ab010000000000000000000000000000 span_id=cd01000000000000\n"
	check(t, strings.HasSuffix(inside, want), "%s, want %s", inside, want)
	if log := slog.New(tracing.LogHandler(nil)); !log.Enabled(context.Background(), slog.LevelInfo) {
		t.Error("without a handler it is not the default one")
	}
}

// TestLogHandlerKeepsTheRules of slog's own handlers.
func TestLogHandlerKeepsTheRules(t *testing.T) {
	var out bytes.Buffer
	slogtest.Run(t, func(*testing.T) slog.Handler {
		out.Reset()
		return tracing.LogHandler(slog.NewJSONHandler(&out, nil))
	}, func(t *testing.T) (record map[string]any) {
		must(t, json.Unmarshal(out.Bytes(), &record))
		return record
	})
}

// TestALossIsLoggedInItsTrace: from the line one search leads to the hold.
func TestALossIsLoggedInItsTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		s := newScene(t)
		s.eng = newLoggingEngine(t, s.store, slog.New(tracing.LogHandler(slog.NewTextHandler(&out, nil))), core.WithHooks(s.obs))
		s.want(s.eng.Do(s.ctx, key, s.work(2*time.Second), core.WithMaxHold(time.Second)), core.ErrLeaseLost)
		s.finish()
		in := s.rec.named(semconv.SpanHold)[0].SpanContext()
		if want := fmt.Sprintf("trace_id=%s span_id=%s\n", in.TraceID(), in.SpanID()); !strings.HasSuffix(out.String(), want) {
			t.Errorf("logged %q, want %q", out.String(), want)
		}
		check(t, !strings.Contains(out.String(), key), "the key is in the log: %s", out.String())
	})
}
