// Package counters counts what engines do, for programs without an OpenTelemetry SDK. It needs the
// standard library alone.
//
//	counts := counters.New()
//	eng, err := core.New(store, core.WithHooks(counts.Hooks()))
//	...
//	mux.Handle("/metrics", counts)      // Prometheus' text format
//	expvar.Publish("keyturn", counts)   // JSON
//	go counts.LogShadows(ctx, slog.Default(), time.Minute)
//
// The series are some of those of package tracing, under the names and with the labels that they have
// in Prometheus, so the same alerts and dashboards read them. Of the durations there are counts and
// sums, and no buckets:
//
//	keyturn_wait_duration_seconds    from asking to the outcome: granted, held, wait_timeout, ...
//	keyturn_hold_duration_seconds    from the grant to the end: released, lost, ...
//	keyturn_conflicts_total          requests that found the key held
//	keyturn_duplicates_total         executions that were on record
//	keyturn_losses_total             leases that were lost
//	keyturn_unlocked_total           runs without the lock, as the rule allows
//
// The labels are keyturn_rule, keyturn_store, keyturn_shadow ("true" for a rule with
// core.WithShadow), and keyturn_outcome. No key is a label. After 1024 rules, further ones are
// "_OTHER".
package counters
