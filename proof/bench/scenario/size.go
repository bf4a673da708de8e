package scenario

import "time"

// Size is how much a run does. With more, figures become steadier, not different.
type Size struct {
	Runs       int           // of each scenario that is repeated
	Span       time.Duration // of one measurement
	MaxCallers int           // goroutines of a load, if its scenario has more
	Handovers  int           // in one measurement
	Held       int           // leases
	HeldTTL    time.Duration // of each
	HeldSpan   time.Duration // how long they are watched
}

// Full is the size for docs/benchmarks.md. It takes some 20 minutes.
var Full = Size{
	Runs: 5, Span: 3 * time.Second, MaxCallers: 256, Handovers: 200,
	Held: 100_000, HeldTTL: 30 * time.Second, HeldSpan: time.Minute,
}

// Quick is the size for an impression, in less than 50 s: shorter, and with fewer leases.
var Quick = Size{
	Runs: 2, Span: 160 * time.Millisecond, MaxCallers: 256, Handovers: 15,
	Held: 5_000, HeldTTL: 2400 * time.Millisecond, HeldSpan: 800 * time.Millisecond,
}

// Tiny is the size for tests. It measures nothing, except that leases outlast their TTL.
var Tiny = Size{
	Runs: 1, Span: 100 * time.Millisecond, MaxCallers: 8, Handovers: 2,
	Held: 50, HeldTTL: 1500 * time.Millisecond, HeldSpan: 1500 * time.Millisecond,
}
