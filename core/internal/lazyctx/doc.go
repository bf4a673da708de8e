// Package lazyctx has a [context.Context] that costs one allocation until somebody waits for
// its end. Most acquisitions and releases are answered before anybody does. The contexts of
// package context allocate timers, channels and registrations in advance. That would be half
// the cost of a lock in memory. It knows nothing but package context.
package lazyctx
