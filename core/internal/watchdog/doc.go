// Package watchdog keeps leases in force: it renews each one in time, in batches, and declares
// it lost when its time is over. A [Watch] keeps one lease; the comment of type term has a
// table of its states. The package knows the store's contract (core/driver) and nothing of the
// engine: a lease is a grant with a [Holder], which learns of a loss. A [Watchdog] has one
// goroutine, and a short-lived one for each batch under way; [Watchdog.Close] ends them. It has
// one mutex per shard. None is held during a call to the store or a holder, except for
// [Holder.Loss].
package watchdog
