// Package watchdog keeps leases in force: it renews each one in time, in batches, and
// declares it lost when its time is over. A [Watch] is its keeping of one lease, and the
// states of that are in the comment of type term. The package knows the store's contract
// (core/driver) and nothing of the engine: a lease is a grant with a [Holder], which is
// told of a loss. A [Watchdog] has one goroutine, plus a short-lived one per batch under
// way; [Watchdog.Close] ends them. Its mutexes, one per shard, are never held while the
// store or a holder is called; only [Holder.Loss] is called under one.
package watchdog
