// Package circuit decides whether the store is worth asking. While the store is out, a
// [Breaker] refuses requests for leases at once. Otherwise callers would pile up, each waiting
// for a timeout. The breaker lets one request at a time through, to find out whether the store
// is back. If a store has parts that fail independently, each part has a state of its own. The
// package knows the errors of package driver. It does not know the engine, the callers in line
// or the leases.
package circuit
