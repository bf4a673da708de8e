package semconv

import "go.opentelemetry.io/otel/attribute"

// The metrics. docs/observability.md has a table of them. To count outcomes or errors, use the
// counts of the histograms, which have them as attributes: they are the numbers of
// acquisitions, holds and store operations.
const (
	MetricWait       = "keyturn.wait.duration"            // from the request to the outcome
	MetricHold       = "keyturn.hold.duration"            // from the grant to the end
	MetricWaiting    = "keyturn.waiting"                  // requests that wait now
	MetricHeld       = "keyturn.held"                     // leases that are held now
	MetricLingering  = "keyturn.lingering"                // leases that nobody uses now and that are kept
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
