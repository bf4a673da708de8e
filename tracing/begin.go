package tracing

import (
	"context"
	"sync"

	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/tracing/semconv"
)

// If a counter's series begins with its first loss, its first value is 1. A value that was
// always 1 has not increased, so a dashboard would never show the first loss of each process.
// Therefore the series of a rule begin at 0: when the rule is declared, or with its first
// measurement if nobody declares it or nobody measures yet.

// begun remembers which rules' series have begun, and what is known of the rules.
type begun struct {
	mu       sync.Mutex
	declared map[labels]coverage.Rule
	places   map[labels]bool
}

// declared begins the series of a rule's counters.
func (o *observer) declared(d observe.Declaration) {
	if len(d.Claims) == 0 {
		return
	}
	at := labels{rule: d.Rule, mode: modeOf(d.Claims), store: o.storeName(d.Store), shadow: d.Info.Shadow}
	m := &o.metrics
	m.begun.mu.Lock()
	if len(m.begun.declared) < mostRules {
		m.begun.declared[at] = d.Info
	}
	delete(m.begun.places, at) // the declaration may add series
	m.begun.mu.Unlock()
	if m.countsHolds(context.Background()) {
		m.begin(at)
	}
}

// begin begins the series of a rule in a mode, if they have not begun.
func (m *metrics) begin(at labels) {
	m.begun.mu.Lock()
	info, done := m.begun.declared[at], m.begun.places[at] || len(m.begun.places) >= mostRules
	if !done {
		m.begun.places[at] = true
	}
	m.begun.mu.Unlock()
	if done {
		return
	}
	m.zero(m.conflicts, at)
	if at.mode == driver.ModeExclusive.String() && !info.Once {
		m.zero(m.handoffs, at)
	}
	lost := at
	lost.reason = semconv.ErrorOther
	m.zero(m.losses, lost)
	for _, lost.reason = range lossReasons {
		m.zero(m.losses, lost)
	}
	if info.RunUnlocked {
		unlocked := at
		unlocked.errorType = semconv.ErrorUnavailable
		m.zero(m.unlocked, unlocked)
	}
	rule := labels{rule: at.rule, store: at.store, shadow: at.shadow} // these series have no mode
	for _, v := range renewalVerdicts {
		m.zero(m.renewals, v.on(rule))
	}
	for _, end := range debtEnds {
		m.zero(m.unanswered, ended(labels{rule: at.rule, store: at.store}, end))
	}
	if info.Once {
		m.zero(m.duplicates, rule)
	}
	if info.Skips != "" {
		m.zero(m.skipped, skipped(rule, info.Skips))
	}
	for _, op := range []string{"force", "forget"} {
		m.zero(m.forced, labels{store: at.store, operation: op})
	}
}

// skipped counts skipped work.
func (o *observer) skipped(ctx context.Context, s observe.Skip) {
	o.metrics.add(ctx, o.metrics.skipped, skipped(labels{rule: s.Rule, store: o.storeName(s.Store)}, s.Reason))
}

// skipped adds the reason, which is one of a short list, to l.
func skipped(l labels, why coverage.SkipReason) labels {
	l.outcome = semconv.ErrorOther
	if why == coverage.SkipHeld || why == coverage.SkipSuperseded {
		l.outcome = string(why)
	}
	return l
}
