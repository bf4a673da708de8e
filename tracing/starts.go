package tracing

import (
	"slices"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// mostRules bounds what is kept, should somebody name rules after requests.
const mostRules = 1024

// starts keeps the options that spans start with, made once per rule. A
// sampler sees only what a span starts with, so the rule must be there; and a
// span that it drops should not have cost an allocation.
type starts struct {
	attributes []attribute.KeyValue // on every span

	mu     sync.RWMutex
	byRule map[string][]trace.SpanStartOption
}

func (s *starts) options(rule string) []trace.SpanStartOption {
	s.mu.RLock()
	opts, ok := s.byRule[rule]
	s.mu.RUnlock()
	if ok {
		return opts
	}
	attrs := slices.Clone(s.attributes)
	if rule != "" {
		attrs = append(attrs, RuleKey.String(rule))
	}
	opts = []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindInternal), trace.WithAttributes(attrs...)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.byRule) < mostRules {
		s.byRule[rule] = opts
	}
	return opts
}
