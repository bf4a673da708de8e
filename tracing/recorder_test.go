package tracing_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/embedded"

	"github.com/keyturn/keyturn/tracing/semconv"
)

// recorder is a tracer provider that keeps its spans, so that no SDK is needed here.
type recorder struct {
	embedded.TracerProvider

	drop func(name string, attrs []attribute.KeyValue) bool // the sampler; nil: keep all

	mu     sync.Mutex
	began  time.Time
	scope  string
	spans  []*span // in order of their start
	faults []string
}

type tracer struct {
	embedded.Tracer
	*recorder
}

// span keeps what it is told. Its provider's mutex guards it.
type span struct {
	embedded.Span

	rec        *recorder
	id         trace.SpanID
	parent     trace.SpanID
	kind       trace.SpanKind
	name       string
	begin, end time.Time
	ended      bool
	attrs      map[attribute.Key]attribute.Value
	events     []event
	links      []trace.Link
	status     codes.Code
	text       string
}

type event struct {
	name  string
	at    time.Time
	attrs map[attribute.Key]attribute.Value
}

func newRecorder() *recorder { return &recorder{began: time.Now()} }

func (r *recorder) Tracer(name string, _ ...trace.TracerOption) trace.Tracer {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.scope = name
	return tracer{recorder: r}
}

func (r *recorder) Start(ctx context.Context, name string, opts ...trace.SpanStartOption) (context.Context, trace.Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	cfg := trace.NewSpanStartConfig(opts...)
	s := &span{
		rec: r, name: name, begin: time.Now(), kind: cfg.SpanKind(), attrs: collect(cfg.Attributes()),
		parent: trace.SpanContextFromContext(ctx).SpanID(),
	}
	if r.drop != nil && r.drop(name, cfg.Attributes()) {
		ctx = trace.ContextWithSpanContext(ctx, trace.SpanContextFromContext(ctx))
		return ctx, trace.SpanFromContext(ctx)
	}
	r.spans = append(r.spans, s)
	binary.BigEndian.PutUint64(s.id[:], uint64(len(r.spans)))
	return trace.ContextWithSpan(ctx, s), s
}

func collect(kvs []attribute.KeyValue) map[attribute.Key]attribute.Value {
	attrs := make(map[attribute.Key]attribute.Value)
	for _, kv := range kvs {
		attrs[kv.Key] = kv.Value
	}
	return attrs
}

// change runs do unless the span has ended, which is a fault.
func (s *span) change(what string, do func()) {
	s.rec.mu.Lock()
	defer s.rec.mu.Unlock()
	if s.ended {
		s.rec.faults = append(s.rec.faults, what+" after the end of "+s.name)
		return
	}
	do()
}

func (s *span) End(...trace.SpanEndOption) {
	s.change("End", func() { s.ended, s.end = true, time.Now() })
}

func (s *span) SetAttributes(kvs ...attribute.KeyValue) {
	s.change("SetAttributes", func() { maps.Copy(s.attrs, collect(kvs)) })
}

func (s *span) AddEvent(name string, opts ...trace.EventOption) {
	s.change("AddEvent", func() {
		cfg := trace.NewEventConfig(opts...)
		s.events = append(s.events, event{name: name, at: time.Now(), attrs: collect(cfg.Attributes())})
	})
}

func (s *span) AddLink(l trace.Link) {
	s.change("AddLink", func() { s.links = append(s.links, l) })
}

func (s *span) RecordError(err error, _ ...trace.EventOption) {
	s.AddEvent("exception", trace.WithAttributes(attribute.String("exception.message", err.Error())))
}

func (s *span) SetStatus(code codes.Code, text string) {
	s.change("SetStatus", func() { s.status, s.text = code, text })
}

func (s *span) IsRecording() bool {
	s.rec.mu.Lock()
	defer s.rec.mu.Unlock()
	return !s.ended
}

func (s *span) SpanContext() trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: s.id, TraceFlags: trace.FlagsSampled})
}

func (s *span) SetName(string)                       {}
func (s *span) TracerProvider() trace.TracerProvider { return s.rec }

// named returns the spans of that name.
func (r *recorder) named(name string) (found []*span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.spans {
		if s.name == name {
			found = append(found, s)
		}
	}
	return found
}

// amiss lists spans left open and misuses of ended ones.
func (r *recorder) amiss() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	amiss := slices.Clone(r.faults)
	for _, s := range r.spans {
		if !s.ended {
			amiss = append(amiss, s.name+" is open")
		}
	}
	return amiss
}

// tree writes the spans as text, the times as seconds from the recorder's
// beginning. Tokens are left out: what number comes next is the store's affair.
func (r *recorder) tree() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	r.branch(&b, trace.SpanID{}, "")
	return b.String()
}

func (r *recorder) branch(b *strings.Builder, parent trace.SpanID, indent string) {
	for _, s := range r.spans {
		if s.parent != parent {
			continue
		}
		fmt.Fprintf(b, "%s%s %s..%s", indent, s.name, r.at(s.begin), r.at(s.end))
		if s.status == codes.Error {
			fmt.Fprintf(b, " ERROR%s", s.text)
		}
		b.WriteByte('\n')
		writeAttrs(b, indent+"    ", s.attrs)
		for _, l := range s.links {
			fmt.Fprintf(b, "%s  > %s\n", indent, r.target(l))
		}
		for _, e := range s.events {
			fmt.Fprintf(b, "%s  * %s at %s\n", indent, e.name, r.at(e.at))
			writeAttrs(b, indent+"      ", e.attrs)
		}
		r.branch(b, s.id, indent+"  ")
	}
}

// target says where a link leads: to which span, and whose that is.
func (r *recorder) target(l trace.Link) string {
	path := ""
	for id := l.SpanContext.SpanID(); id != (trace.SpanID{}); {
		i := slices.IndexFunc(r.spans, func(s *span) bool { return s.id == id })
		if i < 0 {
			break
		}
		path = "/" + r.spans[i].name + path
		id = r.spans[i].parent
	}
	return fmt.Sprintf("%s %s", collect(l.Attributes)[semconv.LinkKey].AsString(), path)
}

func (r *recorder) at(t time.Time) string { return t.Sub(r.began).String() }

func writeAttrs(b *strings.Builder, indent string, attrs map[attribute.Key]attribute.Value) {
	for _, k := range slices.Sorted(maps.Keys(attrs)) {
		value := attrs[k].Emit()
		if k == semconv.TokenKey {
			value = "(a token)"
		}
		fmt.Fprintf(b, "%s%s=%s\n", indent, k, value)
	}
}
