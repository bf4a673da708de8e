package tracing_test

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	noopmetric "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/embedded"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/store/memstore"
	"github.com/keyturn/keyturn/tracing"
)

// alone is set in a process that runs one test alone: a change of OpenTelemetry's globals can't be undone.
const alone = "KEYTURN_TEST_ALONE"

// inProcessOfItsOwn runs the test once more, in another process, and reports whether this is that one.
func inProcessOfItsOwn(t *testing.T) bool {
	t.Helper()
	if os.Getenv(alone) != "" {
		return true
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1")
	cmd.Env = append(os.Environ(), alone+"=1")
	out, err := cmd.CombinedOutput()
	check(t, err == nil, "%v\n%s", err, out)
	return false
}

// canTell reports whether OpenTelemetry tells that nobody collects. With an API before 1.40 there is no telling, so
// what is measured is made for nothing.
func canTell() bool {
	_, ok := any(noopmetric.Int64Counter{}).(interface{ Enabled(context.Context) bool })
	return ok
}

// newGlobal makes hooks that use the global providers, unless opts have others.
func newGlobal(t testing.TB, opts ...tracing.Option) observe.Hooks {
	t.Helper()
	obs, err := tracing.New(opts...)
	must(t, err)
	return obs
}

func ask(ctx context.Context, obs observe.Hooks, a observe.Acquisition) {
	obs.AcquireEnd(obs.AcquireStart(ctx, a), a, nil, core.ErrHeld)
}

// TestNotConfigured: without a provider there is nothing to pay, and from the moment there is one, nothing is missed.
// TestNothingIsAllocatedForWhatIsNotRecorded has the rest.
func TestNotConfigured(t *testing.T) {
	if !inProcessOfItsOwn(t) {
		return
	}
	first, a := newGlobal(t), observe.Acquisition{Claims: []core.Claim{core.Exclusive(key)}, Rule: rule}
	ctx := inTrace(1, trace.FlagsSampled)
	allocs := testing.AllocsPerRun(1000, func() { ask(ctx, first, a) })
	check(t, allocs == 0 || !canTell(), "in somebody's trace: %v allocations", allocs)
	rec := newRecorder()
	otel.SetTracerProvider(rec)
	ask(context.Background(), first, a)                                                             // the observer that was there before
	ask(context.Background(), newHooks(t, tracing.WithTracerProvider(noop.NewTracerProvider())), a) // has its own
	if n := len(rec.spans); n != 1 {
		t.Errorf("%d spans, want 1", n)
	}
	m := newMeter()
	otel.SetMeterProvider(m)
	first.StoreCalled("memory", "acquire", time.Second, nil)
	got := m.text()
	check(t, got == "keyturn.store.operation.duration {keyturn.operation=acquire keyturn.store=memory} [1]\n", "measured %q", got)
	for range 2 { // and also where one takes the other's place
		rec := newRecorder()
		otel.SetTracerProvider(rec)
		obs := newGlobal(t)
		for range 3 {
			ask(context.Background(), obs, a)
		}
		if n := len(rec.spans); n != 3 {
			t.Errorf("%d spans, want 3", n)
		}
	}
}

// switched is a provider that something outside of the program turns on. It can't be compared, either.
type switched struct {
	embedded.TracerProvider
	to   *trace.Tracer
	tags any
}

func (s switched) Tracer(string, ...trace.TracerOption) trace.Tracer { return switchedTracer{to: s.to} }

type switchedTracer struct {
	embedded.Tracer
	to *trace.Tracer
}

func (s switchedTracer) Start(ctx context.Context, name string, opts ...trace.SpanStartOption) (context.Context, trace.Span) {
	return (*s.to).Start(ctx, name, opts...)
}

// TestTurnedOnFromOutside: the provider is the same, and not what it was.
func TestTurnedOnFromOutside(t *testing.T) {
	if !inProcessOfItsOwn(t) {
		return
	}
	a := observe.Acquisition{Claims: []core.Claim{core.Exclusive(key)}}
	to := noop.NewTracerProvider().Tracer("")
	for name, provider := range map[string]trace.TracerProvider{
		"comparable": &switched{to: &to}, "not comparable": switched{to: &to, tags: []int{}},
	} {
		to = noop.NewTracerProvider().Tracer("")
		otel.SetTracerProvider(provider)
		obs := newGlobal(t)
		for range 10 {
			ask(context.Background(), obs, a)
		}
		rec := newRecorder()
		to = rec.Tracer("")
		for range 600 {
			ask(context.Background(), obs, a)
		}
		n := len(rec.spans)
		check(t, n >= 300, "%s: %d spans of 600", name, n)
	}
}

// BenchmarkDo shows what an observer adds to a lock that costs next to nothing itself.
func BenchmarkDo(b *testing.B) {
	for name, provider := range map[string]trace.TracerProvider{"not configured": nil, "not recorded": silentProvider{}} {
		b.Run(name, func(b *testing.B) {
			eng := newEngine(b, memstore.New(), core.WithHooks(newGlobal(b, tracing.WithTracerProvider(provider))))
			defer eng.Close(context.Background())
			handler := func(context.Context) error { return nil }
			withRule := core.WithRule(rule)
			b.ReportAllocs()
			for b.Loop() {
				must(b, eng.Do(context.Background(), key, handler, withRule))
			}
		})
	}
}
