package tracing_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	noopmetric "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/embedded"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/store/memstore"
	"github.com/keyturn/keyturn/tracing"
	"github.com/keyturn/keyturn/tracing/semconv"
)

// TestDroppedSpansEndNoOthers: a span that the sampler drops within a recorded
// one of its kind must not end that one, nor write on it.
func TestDroppedSpansEndNoOthers(t *testing.T) {
	for _, drop := range [][]string{
		{semconv.SpanHold},
		{semconv.SpanOnce},
		{semconv.SpanAcquire},
		{semconv.SpanHold, semconv.SpanAcquire, semconv.SpanOnce},
	} {
		t.Run(fmt.Sprint(drop), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t)
				s.rec.drop = func(name string, attrs []attribute.KeyValue) bool {
					return slices.Contains(drop, name) && collect(attrs)[semconv.RuleKey].AsString() == "inner"
				}
				inner := func(ctx context.Context) ([]byte, error) {
					s.want(checktest.ErrorOf(s.eng.Once(ctx, "inner", s.result(time.Second), core.WithRule("inner"), core.WithMaxHold(time.Second/2))), core.ErrLeaseLost)
					s.want(checktest.ErrorOf(s.eng.Once(ctx, "inner", s.result(time.Second), core.WithRule("inner"))), nil)
					time.Sleep(time.Second)
					return nil, nil
				}
				s.want(checktest.ErrorOf(s.eng.Once(s.ctx, "outer", inner, core.WithRule("outer"))), nil)
				s.finish()
				for _, name := range []string{semconv.SpanOnce, semconv.SpanHold} {
					outer := s.rec.named(name)[0]
					took := outer.end.Sub(outer.begin)
					check(t, took == 3*time.Second, "the outer %s took %v", name, took)
					check(t, outer.attrs[semconv.ErrorTypeKey].AsString() == "" && len(outer.events) == 0, "the outer %s says\n%s", name, shown(outer))
				}
				if got, want := s.rec.named(semconv.SpanHold), 3; len(got) != want && !slices.Contains(drop, semconv.SpanHold) {
					t.Errorf("%d holds, want %d", len(got), want)
				}
			})
		})
	}
}

// TestRunIsNotedWithoutItsAcquisition: that the function ran is known also
// when the acquisition's own span was dropped.
func TestRunIsNotedWithoutItsAcquisition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.rec.drop = func(name string, _ []attribute.KeyValue) bool { return name == semconv.SpanAcquire }
		s.want(checktest.ErrorOf(s.eng.Once(s.ctx, key, func(context.Context) ([]byte, error) { return nil, core.ErrHeld })), core.ErrHeld)
		s.finish()
		got := s.rec.named(semconv.SpanOnce)[0].attrs[semconv.OutcomeKey].AsString()
		check(t, got == semconv.OutcomeFailed, "outcome %s", got)
	})
}

// silentProvider has tracers whose spans are not recorded and that allocate nothing, so that what is
// counted is ours. But they want to be ended, as every span that was started must.
type silentProvider struct {
	embedded.TracerProvider
	ended *int
}

type silentTracer struct {
	embedded.Tracer
	span trace.Span
}

type silentSpan struct {
	noop.Span
	ended *int
}

func (p silentProvider) Tracer(string, ...trace.TracerOption) trace.Tracer {
	return silentTracer{span: silentSpan{ended: p.ended}}
}

func (s silentTracer) Start(ctx context.Context, _ string, _ ...trace.SpanStartOption) (context.Context, trace.Span) {
	return ctx, s.span
}

func (s silentSpan) End(...trace.SpanEndOption) {
	if s.ended != nil {
		*s.ended++
	}
}

// TestNothingIsAllocatedForWhatIsNotRecorded, whatever an engine tells an observer of.
func TestNothingIsAllocatedForWhatIsNotRecorded(t *testing.T) {
	if !canTell() {
		t.Skip("OpenTelemetry's API is older than 1.40")
	}
	if !inProcessOfItsOwn(t) { // for "not configured"
		return
	}
	sampledOut := trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1},
	}))
	tests := map[string]struct {
		provider trace.TracerProvider
		meters   metric.MeterProvider
		ctx      context.Context
	}{
		"not configured": {nil, nil, context.Background()},

		"no allocation by the tracer":  {silentProvider{}, nil, context.Background()},
		"no-op, in an unsampled trace": {noop.NewTracerProvider(), noopmetric.NewMeterProvider(), sampledOut},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			obs := newGlobal(t, tracing.WithTracerProvider(tt.provider), tracing.WithMeterProvider(tt.meters), tracing.WithAttributes(attribute.Int("shard", 3)))
			eng := newEngine(t, memstore.New())
			defer eng.Close(context.Background())
			lease, err := eng.Acquire(context.Background(), key, core.WithRule(rule))
			must(t, err)
			defer lease.Release(context.Background())
			a := observe.Acquisition{Claims: lease.Claims(), Rule: rule}
			blocked := core.HeldError{Key: key, Trace: "00-ab010000000000000000000000000000-cd01000000000000-01"}
			lost := error(&core.LeaseLostError{Key: key})
			allocs := testing.AllocsPerRun(100, func() {
				once := obs.OnceStart(tt.ctx, observe.Execution{Key: key, Rule: rule})
				acquire := obs.AcquireStart(once, a)
				_ = obs.Trace(acquire)
				obs.Blocked(acquire, a, blocked, 3)
				hold := obs.HoldStart(once, seen{lease})
				obs.AcquireEnd(acquire, a, seen{lease}, nil)
				obs.Renewed(seen{lease}, 0, nil)
				obs.Renewed(seen{lease}, time.Hour, nil)
				obs.Extended(seen{lease}, nil)
				obs.HoldEnd(hold, seen{lease}, nil)
				obs.HoldEnd(hold, seen{lease}, lost)
				obs.StoreCalled("memory", "acquire", time.Second, errDown)
				obs.Forced(once, observe.Removal{Key: key, Store: "memory"})
				obs.Unlocked(once, a, errDown)
				obs.OnceEnd(once, observe.Execution{Key: key, Rule: rule}, observe.Outcome{Duplicate: true}, nil)
			})
			check(t, allocs == 0, "%v allocations", allocs)
		})
	}
}

func TestDroppedSpansAreEndedOnce(t *testing.T) {
	ended := 0
	s := newScene(t, tracing.WithTracerProvider(silentProvider{ended: &ended}))
	s.want(checktest.ErrorOf(s.eng.Once(s.ctx, key, s.result(0))), nil)
	s.finish()
	check(t, ended == 3, "%d spans ended, want 3", ended)
}

// TestManyAtOnce is for the race detector.
func TestManyAtOnce(t *testing.T) {
	s := newScene(t)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 50 {
				name := fmt.Sprint("k", (i+j)%3)
				_, err := s.eng.Once(s.ctx, fmt.Sprint(i, j), func(ctx context.Context) ([]byte, error) {
					return nil, s.eng.Do(ctx, name, s.work(0), core.WithRule(name))
				})
				s.want(err, nil)
			}
		})
	}
	all.Wait()
	s.finish()
	n := len(s.rec.named(semconv.SpanHold))
	check(t, n == 800, "%d holds", n)
}
