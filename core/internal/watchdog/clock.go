package watchdog

import (
	"sync/atomic"
	"time"
)

// heartbeat is how often the watchdog looks at the clocks while it has leases: timers
// stand still in a suspended machine, and go on afterwards as if nothing had happened.
const heartbeat = time.Second

// suspendNoticed is the drift between two looks that the slewing of a clock that is
// being set right cannot explain.
const suspendNoticed = 100 * time.Millisecond

// clock notices that the machine slept. Deadlines go by the monotonic clock,
// which on most systems stands still while a laptop or a virtual machine is
// suspended; the backend's clock does not. The wall clock is the witness: where
// it ran ahead of the monotonic one, time has passed that the deadlines missed.
//
// A wall clock set forward by hand looks the same and costs leases that were
// still good: the error is on the safe side. One set back is ignored.
type clock struct {
	started time.Time
	wall    atomic.Pointer[func(time.Time) time.Time] // nil: the machine's; tests set another
}

// drift is how far the wall clock had run ahead, since the start, at t.
func (c *clock) drift(t time.Time) time.Duration {
	wall := t.Round(0) // without the monotonic reading
	if f := c.wall.Load(); f != nil {
		wall = (*f)(wall)
	}
	return wall.Sub(c.started.Round(0)) - t.Sub(c.started)
}
