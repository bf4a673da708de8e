package tracing

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/coverage"
)

// The metrics. docs/observability.md has a table of them. To count outcomes or errors, use the
// counts of the histograms, which have them as attributes: they are the numbers of
// acquisitions, holds and store operations.
const (
	MetricWait       = "keyturn.wait.duration"            // from the request to the outcome
	MetricHold       = "keyturn.hold.duration"            // from the grant to the end
	MetricWaiting    = "keyturn.waiting"                  // requests that wait now
	MetricHeld       = "keyturn.held"                     // leases that are held now
	MetricConflicts  = "keyturn.conflicts"                // requests that found the key held
	MetricHandoffs   = "keyturn.handoffs"                 // leases that were handed on in this process
	MetricLosses     = "keyturn.losses"                   // leases that ended before their holders had finished
	MetricRenewals   = "keyturn.renewals"                 // answers to renewals
	MetricRenewalLag = "keyturn.renewal.lag"              // how late a renewal was sent
	MetricDuplicates = "keyturn.duplicates"               // executions that were on record
	MetricSkipped    = "keyturn.skipped"                  // work that was dropped, as allowed
	MetricUnlocked   = "keyturn.unlocked"                 // runs without the lock, as allowed
	MetricForced     = "keyturn.forced"                   // leases and records that an operator took away
	MetricOwed       = "keyturn.releases.owed"            // releases that the store has not answered yet
	MetricUnanswered = "keyturn.releases.unanswered"      // how these ended
	MetricStore      = "keyturn.store.operation.duration" // the store's operations
	MetricImpaired   = "keyturn.store.impaired"           // stores that work less well than they should
)

// OperationKey is on the metrics of the store's operations, and of operators' actions: acquire,
// renew, downgrade, release, complete, raise, inspect, list, force, forget.
const OperationKey = attribute.Key("keyturn.operation")

// Values of [OutcomeKey] on the metric of renewals, in addition to OutcomeLost and
// OutcomeFailed (a failed one is tried again).
const OutcomeRenewed = "renewed"

// Boundaries of the histograms, in seconds. A nearby Redis answers within a millisecond, and
// people give up after half a minute. A hold is bounded only by its maximum, ten minutes by
// default.
var (
	shortTimes = []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30}
	longTimes  = append(shortTimes[:len(shortTimes):len(shortTimes)], 60, 300, 600)
)

// metrics are the instruments. An instrument that nobody collects is not used: before costly
// work, the code asks Enabled.
type metrics struct {
	wait, hold, renewalLag, store                             metric.Float64Histogram
	waiting, held, impaired                                   metric.Int64UpDownCounter
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
	histogram(&m.wait, MetricWait, shortTimes, "Time from asking for a lock to granted or refused.")
	histogram(&m.hold, MetricHold, longTimes, "Time from granted to released or lost.")
	gauge(&m.waiting, MetricWaiting, "{request}", "Requests that are kept waiting for a lock.")
	gauge(&m.held, MetricHeld, "{lease}", "Leases that this process holds.")
	counter(&m.conflicts, MetricConflicts, "{request}", "Requests that found a lock held, whether they waited or not.")
	counter(&m.handoffs, MetricHandoffs, "{lease}", "Leases that went from one holder to the next in this process, without asking the store.")
	counter(&m.losses, MetricLosses, "{lease}", "Leases that ended before their holders were done.")
	counter(&m.renewals, MetricRenewals, "{renewal}", "Renewals of leases, by what the store answered.")
	histogram(&m.renewalLag, MetricRenewalLag, shortTimes, "Time by which a renewal was sent after it was due.")
	counter(&m.duplicates, MetricDuplicates, "{execution}", "Executions that were not repeated, because they were on record.")
	counter(&m.skipped, MetricSkipped, "{run}", "Runs that were dropped as if they were done, as the rule says.")
	counter(&m.unlocked, MetricUnlocked, "{run}", "Runs without a lock in an outage of the store, as the rule allows.")
	counter(&m.forced, MetricForced, "{key}", "Keys of which an operator took the lease or the record away.")
	gauge(&m.owed, MetricOwed, "{lease}", "Leases that nobody holds and the store may keep, as it has not answered their release.")
	counter(&m.unanswered, MetricUnanswered, "{lease}", "Leases whose release the store did not answer at first, by what became of them.")
	histogram(&m.store, MetricStore, longTimes, "Time that the store took for an operation.")
	gauge(&m.impaired, MetricImpaired, "{store}", "Stores that work, but less well than they should.")
	return errors.Join(errs...)
}

// countsAcquisitions reports whether anybody collects a metric that needs an acquisition's
// state.
func (m *metrics) countsAcquisitions(ctx context.Context) bool {
	return m.wait.Enabled(ctx) || m.conflicts.Enabled(ctx) || m.waiting.Enabled(ctx) || m.handoffs.Enabled(ctx)
}

// countsHolds is the same for holds.
func (m *metrics) countsHolds(ctx context.Context) bool {
	return m.hold.Enabled(ctx) || m.held.Enabled(ctx) || m.losses.Enabled(ctx)
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
	if c.Enabled(ctx) {
		c.Add(ctx, 1, m.of(l).add...)
	}
}

// zero begins a series before there is anything to count.
func (m *metrics) zero(c metric.Int64Counter, l labels) {
	if ctx := context.Background(); c.Enabled(ctx) {
		c.Add(ctx, 0, m.of(l).add...)
	}
}

func (m *metrics) change(ctx context.Context, c metric.Int64UpDownCounter, by int64, l labels) {
	if c.Enabled(ctx) {
		c.Add(ctx, by, m.of(l).add...)
	}
}

func (m *metrics) record(ctx context.Context, h metric.Float64Histogram, seconds float64, l labels) {
	if h.Enabled(ctx) {
		h.Record(ctx, seconds, m.of(l).record...)
	}
}

// renewalVerdicts are the possible results of a renewal.
var renewalVerdicts = []verdict{
	{outcome: OutcomeRenewed}, {OutcomeLost, ErrorLeaseLost}, {OutcomeFailed, ErrorUnavailable}, {OutcomeFailed, ErrorOther},
}

// renewed counts a renewal.
func (m *metrics) renewed(ctx context.Context, l labels, late float64, err error) {
	m.record(ctx, m.renewalLag, late, l)
	l.outcome = OutcomeRenewed
	switch {
	case errors.Is(err, core.ErrLeaseLost):
		l.outcome, l.errorType = OutcomeLost, ErrorLeaseLost
	case err != nil:
		l.outcome, l.errorType = OutcomeFailed, renewalError(err)
	}
	m.add(ctx, m.renewals, l)
}
