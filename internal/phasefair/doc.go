// Package phasefair decides whose turn it is at a key: which request is admitted at once, which
// waits, and which of the waiters follow when a lease ends. It is the one implementation of the
// sentences M1, M2, M3 and M6 of [driver.Store]. A store that can run Go code for such a
// decision uses it. It does no I/O and reads no clock, and it knows neither tokens nor TTLs.
//
// A store that has queues of its own passes their heads to [Key.Next], until nobody is next. A
// store that reads all rows of a key keeps them as [Members] of a [Lock] while it decides, and calls
// [Lock.Step].
//
// The claims of a set count here like any other claims. A set (S1) takes its claims in key
// order for as long as [Key.Admits] admits it, and waits at the first key that does not. It
// holds nothing behind that key.
package phasefair
