package tracing

import (
	"slices"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/keyturn/keyturn/tracing/semconv"
)

// labels are the attributes of measurements. Each comes from a short list, except the rule,
// whose number is bounded here. Keys, tokens and owners are never among them: otherwise every
// key would be a series of its own, for ever.
type labels struct {
	rule, mode, store, outcome, errorType, reason, operation string
	shadow                                                   bool
}

// measured has the options of a measurement, made once. Making them for each measurement would
// cost more than the measurement.
type measured struct {
	add    []metric.AddOption
	record []metric.RecordOption
}

// series keeps the measurement options by their labels.
type series struct {
	attributes []attribute.KeyValue // added to every measurement

	mu       sync.RWMutex
	rules    map[string]bool
	byLabels map[labels]*measured
}

func newSeries(attributes []attribute.KeyValue) series {
	return series{attributes: attributes, rules: make(map[string]bool), byLabels: make(map[labels]*measured)}
}

// of returns the options for l. fresh reports whether these labels are new.
func (s *series) of(l labels) (m *measured, fresh bool) {
	s.mu.RLock()
	if l.rule != "" && !s.rules[l.rule] && len(s.rules) >= mostRules {
		l.rule = semconv.RuleOther
	}
	known := s.byLabels[l]
	s.mu.RUnlock()
	if known != nil {
		return known, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case l.rule == "" || l.rule == semconv.RuleOther || s.rules[l.rule]:
	case len(s.rules) < mostRules:
		s.rules[l.rule] = true
	default: // another caller took the last place meanwhile
		l.rule = semconv.RuleOther
	}
	if known := s.byLabels[l]; known != nil {
		return known, false
	}
	option := metric.WithAttributeSet(attribute.NewSet(append(slices.Clone(s.attributes), l.list()...)...))
	m = &measured{add: []metric.AddOption{option}, record: []metric.RecordOption{option}}
	s.byLabels[l] = m
	return m, true
}

// isPlace reports whether l has nothing but rule, mode and store.
func (l labels) isPlace() bool {
	return l.mode != "" && l == labels{rule: l.rule, mode: l.mode, store: l.store, shadow: l.shadow}
}

// list returns the attributes, without those that do not apply.
func (l labels) list() []attribute.KeyValue {
	var list []attribute.KeyValue
	for _, a := range []attribute.KeyValue{
		semconv.RuleKey.String(l.rule), semconv.ModeKey.String(l.mode), semconv.StoreKey.String(l.store), semconv.OutcomeKey.String(l.outcome), semconv.ErrorTypeKey.String(l.errorType),
		semconv.LossReasonKey.String(l.reason), semconv.OperationKey.String(l.operation),
	} {
		if a.Value.AsString() != "" {
			list = append(list, a)
		}
	}
	if l.shadow {
		list = append(list, semconv.ShadowKey.Bool(true))
	}
	return list
}
