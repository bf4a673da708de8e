package tracing_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/tracing"
	"github.com/keyturn/keyturn/tracing/semconv"
)

// inTrace is a context in a trace of somebody's.
func inTrace(id byte, flags trace.TraceFlags) context.Context {
	return trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{0xab, id}, SpanID: trace.SpanID{0xcd, id}, TraceFlags: flags,
	}))
}

// blocked gives the span of an acquisition that these holders were in the way of.
func blocked(t *testing.T, traces ...string) *span {
	t.Helper()
	obs := newHooks(t)
	a := observe.Acquisition{Claims: []core.Claim{core.Exclusive(key)}, Wait: true}
	ctx := obs.AcquireStart(context.Background(), a)
	for i, text := range traces {
		obs.Blocked(ctx, a, core.HeldError{Key: key, Trace: text, Holder: "host-1:2:x"}, i)
	}
	obs.AcquireEnd(ctx, a, nil, core.ErrHeld)
	return trace.SpanFromContext(ctx).(*span)
}

// Links are bounded: behind a long line each request has another in front of it, one after the other.
func TestLinks(t *testing.T) {
	var of []string // traces
	for i := range 20 {
		of = append(of, newHooks(t).Trace(inTrace(byte(i), trace.FlagsSampled)))
	}
	for name, tt := range map[string]struct {
		traces []string
		want   []byte // the second byte of the trace ids linked to
	}{
		"unknown":                             {traces: []string{""}},
		"the same again":                      {traces: []string{of[1], of[1], "", of[1]}, want: []byte{1}},
		"one after another":                   {traces: []string{of[1], of[2], of[1]}, want: []byte{1, 2}},
		"of a later version, with more to it": {traces: []string{"01" + of[1][2:] + "-more"}, want: []byte{1}},
		"no traceparent":                      {traces: []string{"b3:1-2-3", strings.Repeat("x", driver.MaxNoteBytes), "00-zz-yy-01", of[1][:54], "{}\x00"}},
		"no trace":                            {traces: []string{"00-00000000000000000000000000000000-0000000000000000-01"}},
		"many":                                {traces: of, want: []byte{0, 1, 2, 3, 4, 5, 6, 7}},
	} {
		links := blocked(t, tt.traces...).links
		if len(links) != len(tt.want) {
			t.Errorf("%s: links %v, want %d", name, links, len(tt.want))
			continue
		}
		for i, l := range links {
			if l.SpanContext.TraceID() != (trace.TraceID{0xab, tt.want[i]}) || l.SpanContext.SpanID() != (trace.SpanID{0xcd, tt.want[i]}) || !l.SpanContext.IsRemote() {
				t.Errorf("%s: link %d to %v", name, i, l.SpanContext)
			}
			got := collect(l.Attributes)[semconv.LinkKey].AsString()
			check(t, got == semconv.LinkBlockedBy, "%s: link %d is of kind %q", name, i, got)
		}
	}
}

// own is a propagator that is nobody else's, with two fields of its own.
type own struct{ padding string }

func (p own) Inject(ctx context.Context, c propagation.TextMapCarrier) {
	in := trace.SpanContextFromContext(ctx)
	c.Set("x-trace", in.TraceID().String()+p.padding)
	c.Set("x-span", in.SpanID().String())
}

func (own) Extract(ctx context.Context, c propagation.TextMapCarrier) context.Context {
	id, _ := trace.TraceIDFromHex(c.Get("x-trace"))
	span, _ := trace.SpanIDFromHex(c.Get("x-span"))
	return trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: span, TraceFlags: trace.FlagsSampled}))
}

func (own) Fields() []string { return []string{"x-trace", "x-span"} }

func TestPropagators(t *testing.T) {
	member, err := baggage.NewMember("patient", "42")
	must(t, err)
	bag, err := baggage.New(member)
	must(t, err)
	ctx := baggage.ContextWithBaggage(inTrace(1, trace.FlagsSampled), bag)
	const w3c = "00-ab010000000000000000000000000000-cd01000000000000-01"
	for name, tt := range map[string]struct {
		p    propagation.TextMapPropagator
		want string
	}{
		"nil":             {nil, w3c},
		"the usual two":   {propagation.NewCompositeTextMapPropagator(propagation.Baggage{}, propagation.TraceContext{}), w3c},
		"one of its own":  {own{}, "x-span=cd01000000000000&x-trace=ab010000000000000000000000000000"},
		"one that is odd": {own{padding: strings.Repeat("x", driver.MaxNoteBytes)}, ""},
		"baggage alone":   {propagation.Baggage{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			rec := newRecorder()
			obs := newHooks(t, tracing.WithTracerProvider(rec), tracing.WithPropagators(tt.p))
			if got := obs.Trace(ctx); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
			for _, ctx := range []context.Context{context.Background(), inTrace(1, 0)} { // in no trace, and in a dropped one
				if got := obs.Trace(ctx); got != "" {
					t.Errorf("%q of nothing", got)
				}
			}
			// A process that has gone over to it reads both.
			for _, text := range []string{w3c, tt.want} {
				ctx := obs.OnceStart(context.Background(), observe.Execution{Key: key})
				obs.OnceEnd(ctx, observe.Execution{Key: key}, observe.Outcome{Duplicate: true, Trace: text}, nil)
				links := trace.SpanFromContext(ctx).(*span).links
				if text != "" && (len(links) != 1 || links[0].SpanContext.TraceID() != (trace.TraceID{0xab, 1})) {
					t.Errorf("%q gives the links %v", text, links)
				}
			}
		})
	}
}

func TestRenewals(t *testing.T) {
	const ttl = 10 * time.Second
	lost := &core.LeaseLostError{Key: key, Reason: driver.LossTaken}
	for name, tt := range map[string]struct {
		late      time.Duration
		err       error
		event     string // "": none
		errorType string
	}{
		"a little late":                       {late: ttl/10 - 1},
		"late":                                {late: ttl / 10, event: semconv.EventRenewedLate},
		"store out, and late":                 {late: ttl / 2, err: errDown, event: semconv.EventRenewalFailed, errorType: semconv.ErrorUnavailable},
		"store silent":                        {err: context.DeadlineExceeded, event: semconv.EventRenewalFailed, errorType: semconv.ErrorUnavailable},
		"engine ends":                         {err: context.Canceled, event: semconv.EventRenewalFailed, errorType: semconv.ErrorUnavailable},
		"store answers oddly":                 {err: errors.New("odd"), event: semconv.EventRenewalFailed, errorType: semconv.ErrorOther},
		"a loss that comes late is HoldEnd's": {late: ttl / 2, err: lost},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t)
			lease, err := s.eng.Acquire(s.ctx, key, core.WithTTL(ttl))
			s.want(err, nil)
			s.obs.Renewed(seen{lease}, tt.late, tt.err)
			s.want(lease.Release(s.ctx), nil)
			s.obs.Renewed(seen{lease}, tt.late, tt.err) // its answer came after the release
			s.finish()
			hold := s.rec.named(semconv.SpanHold)[0]
			if got := hold.attrs[semconv.TokenKey].AsInt64(); got != int64(lease.Token()) { // testdata leaves it out
				t.Errorf("token %d, want %d", got, lease.Token())
			}
			if (len(hold.events) == 1) != (tt.event != "") {
				t.Fatalf("%s: events %v, want %q", name, hold.events, tt.event)
			}
			for _, e := range hold.events {
				if got := e.attrs[semconv.ErrorTypeKey].AsString(); e.name != tt.event || got != tt.errorType {
					t.Errorf("%s: event %s of error type %q, want %s, %q", name, e.name, got, tt.event, tt.errorType)
				}
				if got := e.attrs[semconv.LateKey].AsFloat64(); tt.err == nil && got != tt.late.Seconds() {
					t.Errorf("%s: late by %v s, want %v", name, got, tt.late)
				}
			}
		})
	}
}
