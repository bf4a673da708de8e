// Package lazyctx has a [context.Context] that costs one allocation until somebody waits for
// its end. Most acquisitions and releases are answered before anybody does. The contexts of
// package context pay for timers, channels and registrations in advance: half of what a lock in
// memory would cost. It knows nothing but package context.
package lazyctx
