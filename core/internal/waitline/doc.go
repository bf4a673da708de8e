// Package waitline lines up the callers of one process that want the same key. The first in
// line asks the store. The others wait until they are admitted, until another caller
// hands them its lease or a record, or until they give up. So the store's own queue for a key
// stays short, however many goroutines want the key. The package knows the claims, records and
// errors of package driver, and the hand-offs of package handoff. It does not know the engine,
// and it never asks a store: the engine tells it the store's answers.
//
// Each line has parts that know nothing of each other: the [queue] of places, the [admission]
// that says which callers may ask the store now, the [alarm] that makes callers give up, the
// [evidence] of what the store last said, and the [handoff.Streak]. The lines are spread over
// shards by a hash of their key. A shard's mutex guards everything in its lines, and nobody
// holds two of them at a time.
//
// Where a caller gives up, and with what error: [Lines.Enter] in enter.go waits, and alarm.go
// has the timer of the maximum wait. evidence.go says whether the caller waited for a holder or
// for a silent store. Engine.refusal in core/refusal.go makes the caller's error of that.
package waitline
