package tracing

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/tracing/semconv"
)

// scope is the name of this package for the tracer provider.
const scope = "github.com/keyturn/keyturn/tracing"

// observer makes spans and measurements of what engines do.
type observer struct {
	tracer      trace.Tracer
	idle        idle
	propagators propagation.TextMapPropagator
	starts      starts
	keys        keys
	metrics     metrics
	storeGiven  bool // WithAttributes gave a store
	owners      bool // owners are shown

	// Their addresses are the context keys of the spans under way. They belong to this
	// observer, so other observers' spans in the same context do no harm.
	acquiring, holding, executing slot
}

// New makes hooks for [core.WithHooks] that record spans and measurements of what an engine
// does. Several engines may share them. They are safe for concurrent use. Without options they
// use the global tracer and meter providers, even if those are set later, and show keys as
// hashes that only these hooks can match.
//
// The error joins every [*core.OptionError], or is the meter provider's error about an
// instrument.
func New(opts ...Option) (observe.Hooks, error) {
	o, err := newObserver(opts)
	if err != nil {
		return observe.Hooks{}, err
	}
	return o.hooks(), nil
}

func newObserver(opts []Option) (*observer, error) {
	cfg, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	tracers := cfg.tracers
	if tracers == nil {
		tracers = otel.GetTracerProvider()
	}
	o := &observer{
		tracer:      tracers.Tracer(scope),
		propagators: cfg.propagators,
		starts:      starts{attributes: cfg.attributes, known: make(map[place][]trace.SpanStartOption)},
		keys:        cfg.keys,
		owners:      cfg.owners,
		metrics:     newMetrics(cfg.attributes),
		storeGiven:  slices.ContainsFunc(cfg.attributes, func(kv attribute.KeyValue) bool { return kv.Key == semconv.StoreKey }),
	}
	o.idle.watching = cfg.tracers == nil
	if err := o.metrics.create(cfg.meters.Meter(scope)); err != nil {
		return nil, err
	}
	return o, nil
}

func (o *observer) hooks() observe.Hooks {
	return observe.Hooks{
		AcquireStart:  o.acquireStart,
		Trace:         o.trace,
		Blocked:       o.blocked,
		AcquireEnd:    o.acquireEnd,
		HoldStart:     o.holdStart,
		Renewed:       o.renewed,
		Extended:      o.extended,
		HoldEnd:       o.holdEnd,
		Owed:          o.owed,
		Lingered:      o.lingered,
		OnceStart:     o.onceStart,
		OnceEnd:       o.onceEnd,
		Unlocked:      o.unlocked,
		Forced:        o.forced,
		Declared:      o.declared,
		Skipped:       o.skipped,
		StoreCalled:   o.storeCalled,
		StoreImpaired: o.storeImpaired,
	}
}

// slot is the place of one kind of span in contexts. It knows whether there ever was such a
// span. Looking a value up in a lease's context costs an allocation if nobody else has needed
// that context. A program without tracing should not pay for that.
type slot struct{ used atomic.Bool }

// running is a span under way that is recorded, or whose duration is measured.
type running struct {
	trace.Span
	began time.Time
	ran   atomic.Bool // of an execution: its function was called
	state
}

// start begins a span. If it is neither recorded nor measured, it allocates nothing, and the
// span is nil.
func (o *observer) start(ctx context.Context, in *slot, name string, at place, counted bool) (context.Context, *running) {
	var span trace.Span = noop.Span{}
	if !o.idle.skips() {
		ctx, span = o.idle.start(ctx, o.tracer, name, o.starts.options(at))
	}
	if counted || span.IsRecording() {
		if !in.used.Load() { // otherwise each start would write what all of them read
			in.used.Store(true)
		}
		r := &running{Span: span, began: time.Now()}
		return context.WithValue(ctx, in, r), r
	}
	span.End()
	if in.running(ctx) != nil {
		// The span around this one is under way. It has to be hidden; otherwise it would be
		// taken for this one, and ended in its place.
		ctx = context.WithValue(ctx, in, (*running)(nil))
	}
	return ctx, nil
}

// running returns the span under way that start put into ctx, or nil.
func (in *slot) running(ctx context.Context) *running {
	if !in.used.Load() {
		return nil
	}
	r, _ := ctx.Value(in).(*running)
	return r
}
