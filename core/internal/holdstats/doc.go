// Package holdstats keeps statistics of how long leases are held, in bounded memory: for the
// engine as a whole, for each rule, and for the keys that callers were refused. It derives two
// things from them: when a refused caller should come back, and a TTL that suits the work. The
// package does not know leases, callers or the store. Nothing is kept before the first refusal, or the first
// call with an adaptive TTL, so an engine without either pays nothing for it.
//
// # Retry after
//
// A refused caller learns when to come back: after the moving average of how long leases on
// the key are held, or of all leases of the engine if nothing is known of the key. If the
// holder has had the key for longer than the average (HeldError.HeldFor, A12), it is expected
// to take as long again. For example, after 6 s the hint is 6 s, although the average may be 2
// ms. The hint is never more than the holder's remaining TTL, which is also the hint if
// nothing else is known. The averages per key are in a table of fixed size (1024 keys, 24
// KiB). Only a refusal takes another key's place there, so the keys that callers are refused
// keep theirs. Up to 16 samples wait together for the mutex of all keys, and no answer misses any.
//
// # A TTL that fits
//
// An adaptive TTL is three times the 99th percentile of the rule's holds, within bounds. It is three times
// because a renewal is due at a third of the TTL, so usual leases need none. The percentile
// comes from a histogram of 230 bytes per rule, which is halved after each thousand leases. It
// begins with the ceiling, because a short TTL is a risk and a long one only a delay. A lost
// lease counts with the time that it lasted, so a TTL that loses leases grows.
package holdstats
