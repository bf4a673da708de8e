package tracing

import (
	"slices"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// labels are what measurements may be told apart by. Each comes from a short
// list, but for the rule, which is bounded here; keys, tokens and owners are
// never among them, or every key would be a series of its own, for ever.
type labels struct {
	rule, mode, store, outcome, errorType, reason, operation string
}

// measured are the options of a measurement, made once: making them for each
// would cost more than the measurement.
type measured struct {
	add    []metric.AddOption
	record []metric.RecordOption
}

// series keeps the options by their labels.
type series struct {
	attributes []attribute.KeyValue // on every measurement

	mu       sync.RWMutex
	rules    map[string]bool
	byLabels map[labels]*measured
}

func newSeries(attributes []attribute.KeyValue) series {
	return series{attributes: attributes, rules: make(map[string]bool), byLabels: make(map[labels]*measured)}
}

// of also says whether these labels are new.
func (s *series) of(l labels) (m *measured, fresh bool) {
	s.mu.RLock()
	if l.rule != "" && !s.rules[l.rule] && len(s.rules) >= mostRules {
		l.rule = RuleOther
	}
	known := s.byLabels[l]
	s.mu.RUnlock()
	if known != nil {
		return known, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case l.rule == "" || l.rule == RuleOther || s.rules[l.rule]:
	case len(s.rules) < mostRules:
		s.rules[l.rule] = true
	default: // the last place went to another meanwhile
		l.rule = RuleOther
	}
	if known := s.byLabels[l]; known != nil {
		return known, false
	}
	option := metric.WithAttributeSet(attribute.NewSet(append(slices.Clone(s.attributes), l.list()...)...))
	m = &measured{add: []metric.AddOption{option}, record: []metric.RecordOption{option}}
	s.byLabels[l] = m
	return m, true
}

// isPlace says that nothing but the rule, its mode and its store tell it apart.
func (l labels) isPlace() bool {
	return l.mode != "" && l == labels{rule: l.rule, mode: l.mode, store: l.store}
}

// list leaves out what does not apply.
func (l labels) list() []attribute.KeyValue {
	var list []attribute.KeyValue
	for _, a := range []attribute.KeyValue{
		RuleKey.String(l.rule), ModeKey.String(l.mode), StoreKey.String(l.store), OutcomeKey.String(l.outcome), ErrorTypeKey.String(l.errorType),
		LossReasonKey.String(l.reason), OperationKey.String(l.operation),
	} {
		if a.Value.AsString() != "" {
			list = append(list, a)
		}
	}
	return list
}
