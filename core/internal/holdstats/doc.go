// Package holdstats keeps statistics of how long leases are held, in bounded memory: for the
// engine as a whole, for each rule, and for the keys that callers were refused. It derives two
// things from them: when a refused caller should come back, and a TTL that suits the work. The
// package does not know leases, callers or the store.
package holdstats
