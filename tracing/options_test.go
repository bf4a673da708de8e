package tracing_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"go.opentelemetry.io/otel/attribute"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/observe"
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
		if (err != nil) != (len(tt.want) > 0) || (obs.AcquireStart == nil) != (err != nil) || err != nil && !errors.Is(err, core.ErrInvalidOption) {
			t.Errorf("%s: New gave %+v, %v", name, obs, err)
		}
		for _, option := range tt.want {
			if !strings.Contains(fmt.Sprint(err), option) || strings.Contains(fmt.Sprint(err), "hunter2") {
				t.Errorf("%s: %v does not name %s, or tells the secret", name, err, option)
			}
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
					if got[semconv.StoreKey].AsString() != store || got[semconv.RuleKey].AsString() != rule || opts != nil && got["shard"].AsInt64() != 3 {
						t.Errorf("a sampler sees %v at the start of %s", attrs, name)
					}
				}
				return false
			}
			_, err := s.eng.Once(s.ctx, key, s.result(0), core.WithRule(rule))
			s.want(err, nil)
			s.finish()
			if starts != 3 {
				t.Errorf("%d spans began", starts)
			}
			for _, span := range s.rec.spans {
				if span.attrs[semconv.OutcomeKey].AsString() == "nonsense" {
					t.Errorf("an outcome of the user's is left on %s", span.name)
				}
				if strings.HasPrefix(span.name, "keyturn.") && span.attrs[semconv.StoreKey].AsString() != store {
					t.Errorf("%s is on %s, not %s", span.attrs[semconv.StoreKey].AsString(), span.name, store)
				}
			}
			for metric, series := range s.meter.numbers {
				for labels := range series {
					if !strings.Contains(labels, "keyturn.store="+store) || strings.Contains(labels, "shard=3") != (opts != nil) {
						t.Errorf("%s has the labels %s", metric, labels)
					}
				}
			}
		})
	}
}

// TestManyRules: rules named after requests by mistake must not fill the
// memory, and still are on their spans.
func TestManyRules(t *testing.T) {
	rec := newRecorder()
	obs, cached, err := tracing.NewCached(tracing.WithTracerProvider(rec))
	must(t, err)
	for i := range 3000 {
		ctx := obs.OnceStart(context.Background(), observe.Execution{Key: key, Rule: fmt.Sprint(i)})
		obs.OnceEnd(ctx, observe.Execution{Key: key, Rule: fmt.Sprint(i)}, observe.Outcome{}, nil)
	}
	for i, span := range rec.spans {
		if got := span.attrs[semconv.RuleKey].AsString(); got != fmt.Sprint(i) {
			t.Fatalf("rule %s on the span of rule %d", got, i)
		}
	}
	if n := cached(); n != 1024 {
		t.Errorf("%d rules kept", n)
	}
}

func TestScopeIsThisPackage(t *testing.T) {
	rec, m := newRecorder(), newMeter()
	newHooks(t, tracing.WithTracerProvider(rec), tracing.WithMeterProvider(m))
	if want := "github.com/keyturn/keyturn/tracing"; rec.scope != want || m.scope != want {
		t.Errorf("scopes %q and %q", rec.scope, m.scope)
	}
}
