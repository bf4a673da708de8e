package tracing

import (
	"slices"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/keyturn/keyturn/tracing/semconv"
)

// mostRules bounds the memory if a program names rules after requests.
const mostRules = 1024

// place is what spans are sampled by: the rule and the store.
type place struct{ rule, store string }

// attributes returns the attributes that are known.
func (p place) attributes() (attrs []attribute.KeyValue) {
	if p.rule != "" {
		attrs = append(attrs, semconv.RuleKey.String(p.rule))
	}
	if p.store != "" {
		attrs = append(attrs, semconv.StoreKey.String(p.store))
	}
	return attrs
}

// starts keeps the options that spans start with, made once per place. A sampler sees only what
// a span starts with, so the place must be among them. A span that the sampler drops should not
// cost an allocation.
type starts struct {
	attributes []attribute.KeyValue // added to every span

	mu    sync.RWMutex
	known map[place][]trace.SpanStartOption
}

func (s *starts) options(at place) []trace.SpanStartOption {
	s.mu.RLock()
	opts, ok := s.known[at]
	s.mu.RUnlock()
	if ok {
		return opts
	}
	attrs := append(slices.Clone(s.attributes), at.attributes()...)
	opts = []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindInternal), trace.WithAttributes(attrs...)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) < mostRules {
		s.known[at] = opts
	}
	return opts
}
