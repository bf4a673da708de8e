package tracing

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/tracing/semconv"
)

// Boundaries of the histograms, in seconds. A nearby Redis answers within a millisecond, and
// people give up after half a minute. A hold is bounded only by its maximum, ten minutes by
// default.
var (
	shortTimes = []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30}
	longTimes  = append(shortTimes[:len(shortTimes):len(shortTimes)], 60, 300, 600)
)

// metrics are the instruments. An instrument that nobody collects is not used: before costly
// work, the code asks [enabled].
type metrics struct {
	wait, hold, renewalLag, store                             metric.Float64Histogram
	waiting, held, lingering, impaired                        metric.Int64UpDownCounter
	conflicts, losses, renewals, duplicates, unlocked, forced metric.Int64Counter
	handoffs, skipped, unanswered                             metric.Int64Counter
	owed                                                      metric.Int64UpDownCounter

	series series
	begun  begun
}

func newMetrics(attributes []attribute.KeyValue) metrics {
	return metrics{
		series: newSeries(attributes),
		begun:  begun{declared: make(map[labels]coverage.Rule), places: make(map[labels]bool)},
	}
}

func (m *metrics) create(meter metric.Meter) error {
	var errs []error
	histogram := func(to *metric.Float64Histogram, name string, bounds []float64, about string) {
		var err error
		*to, err = meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(about), metric.WithExplicitBucketBoundaries(bounds...))
		errs = append(errs, err)
	}
	gauge := func(to *metric.Int64UpDownCounter, name, unit, about string) {
		var err error
		*to, err = meter.Int64UpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(about))
		errs = append(errs, err)
	}
	counter := func(to *metric.Int64Counter, name, unit, about string) {
		var err error
		*to, err = meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(about))
		errs = append(errs, err)
	}
	histogram(&m.wait, semconv.MetricWait, shortTimes, "Time from asking for a lock to granted or refused.")
	histogram(&m.hold, semconv.MetricHold, longTimes, "Time from granted to released or lost.")
	gauge(&m.waiting, semconv.MetricWaiting, "{request}", "Requests that are kept waiting for a lock.")
	gauge(&m.held, semconv.MetricHeld, "{lease}", "Leases that this process holds.")
	gauge(&m.lingering, semconv.MetricLingering, "{lease}", "Leases that nobody uses, and that this process keeps for its next caller.")
	counter(&m.conflicts, semconv.MetricConflicts, "{request}", "Requests that found a lock held, whether they waited or not.")
	counter(&m.handoffs, semconv.MetricHandoffs, "{lease}", "Leases that went from one holder to the next in this process, without asking the store.")
	counter(&m.losses, semconv.MetricLosses, "{lease}", "Leases that ended before their holders were done.")
	counter(&m.renewals, semconv.MetricRenewals, "{renewal}", "Renewals of leases, by what the store answered.")
	histogram(&m.renewalLag, semconv.MetricRenewalLag, shortTimes, "Time by which a renewal was sent after it was due.")
	counter(&m.duplicates, semconv.MetricDuplicates, "{execution}", "Executions that were not repeated, because they were on record.")
	counter(&m.skipped, semconv.MetricSkipped, "{run}", "Runs that were dropped as if they were done, as the rule says.")
	counter(&m.unlocked, semconv.MetricUnlocked, "{run}", "Runs without a lock in an outage of the store, as the rule allows.")
	counter(&m.forced, semconv.MetricForced, "{key}", "Keys of which an operator took the lease or the record away.")
	gauge(&m.owed, semconv.MetricOwed, "{lease}", "Leases that nobody holds and the store may keep, as it has not answered their release.")
	counter(&m.unanswered, semconv.MetricUnanswered, "{lease}", "Leases whose release the store did not answer at first, by what became of them.")
	histogram(&m.store, semconv.MetricStore, longTimes, "Time that the store took for an operation.")
	gauge(&m.impaired, semconv.MetricImpaired, "{store}", "Stores that work, but less well than they should.")
	return errors.Join(errs...)
}

// enabled reports whether anybody collects an instrument. The API can answer from 1.40 on; with an
// older one, it counts as collected.
func enabled(ctx context.Context, instrument any) bool {
	asked, ok := instrument.(interface{ Enabled(context.Context) bool })
	return !ok || asked.Enabled(ctx)
}

// countsAcquisitions reports whether anybody collects a metric that needs an acquisition's
// state.
func (m *metrics) countsAcquisitions(ctx context.Context) bool {
	return enabled(ctx, m.wait) || enabled(ctx, m.conflicts) || enabled(ctx, m.waiting) || enabled(ctx, m.handoffs)
}

// countsHolds is the same for holds.
func (m *metrics) countsHolds(ctx context.Context) bool {
	return enabled(ctx, m.hold) || enabled(ctx, m.held) || enabled(ctx, m.losses)
}

// of returns the measurement options for these labels. The first labels of a rule also begin
// its other series.
func (m *metrics) of(l labels) *measured {
	known, fresh := m.series.of(l)
	if fresh && l.isPlace() {
		m.begin(l)
	}
	return known
}

// add and record skip an instrument that nobody collects.
func (m *metrics) add(ctx context.Context, c metric.Int64Counter, l labels) {
	if enabled(ctx, c) {
		c.Add(ctx, 1, m.of(l).add...)
	}
}

// zero begins a series before there is anything to count.
func (m *metrics) zero(c metric.Int64Counter, l labels) {
	if ctx := context.Background(); enabled(ctx, c) {
		c.Add(ctx, 0, m.of(l).add...)
	}
}

func (m *metrics) change(ctx context.Context, c metric.Int64UpDownCounter, by int64, l labels) {
	if enabled(ctx, c) {
		c.Add(ctx, by, m.of(l).add...)
	}
}

func (m *metrics) record(ctx context.Context, h metric.Float64Histogram, seconds float64, l labels) {
	if enabled(ctx, h) {
		h.Record(ctx, seconds, m.of(l).record...)
	}
}

// renewalVerdicts are the possible results of a renewal.
var renewalVerdicts = []verdict{
	{outcome: semconv.OutcomeRenewed}, {semconv.OutcomeLost, semconv.ErrorLeaseLost}, {semconv.OutcomeFailed, semconv.ErrorUnavailable}, {semconv.OutcomeFailed, semconv.ErrorOther},
}

// renewed counts a renewal.
func (m *metrics) renewed(ctx context.Context, l labels, late float64, err error) {
	m.record(ctx, m.renewalLag, late, l)
	l.outcome = semconv.OutcomeRenewed
	switch {
	case errors.Is(err, core.ErrLeaseLost):
		l.outcome, l.errorType = semconv.OutcomeLost, semconv.ErrorLeaseLost
	case err != nil:
		l.outcome, l.errorType = semconv.OutcomeFailed, renewalError(err)
	}
	m.add(ctx, m.renewals, l)
}
