// Package circuit decides whether the store is worth asking. While the store is out,
// a [Breaker] refuses requests for leases at once, so that callers do not pile up, each
// waiting for a timeout; one request at a time is let through to find out whether the
// store is back. A store may have parts that fail by themselves: each has a state of its
// own. The package knows the errors of package driver. It does not know the engine, the
// callers in line or the leases.
package circuit
