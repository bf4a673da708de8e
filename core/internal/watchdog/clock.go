package watchdog

import "time"

// heartbeat is how often the watchdog looks at the clocks while it has leases. Timers stand
// still in a suspended machine, and go on afterwards as if nothing had happened.
const heartbeat = time.Second

// suspendNoticed is the least drift between two looks that counts as a suspension. It is more
// than the gradual correction of a clock can cause.
const suspendNoticed = 100 * time.Millisecond

// clock notices that the machine slept. Deadlines go by the monotonic clock. On most systems it
// stands still while a laptop or a virtual machine is suspended; the backend's clock does not.
// So the wall clock is compared with it: if the wall clock ran ahead, time has passed that the
// deadlines missed.
//
// A wall clock that is set forward by hand looks the same, and costs leases that were still
// good. That error is on the safe side. A wall clock that is set back is ignored.
type clock struct {
	started time.Time
	wall    func(time.Time) time.Time // as in Config
}

// drift is how far the wall clock has run ahead of the monotonic one, from the start to t.
func (c *clock) drift(t time.Time) time.Duration {
	wall := t.Round(0) // Round drops the monotonic reading
	if c.wall != nil {
		wall = c.wall(wall)
	}
	return wall.Sub(c.started.Round(0)) - t.Sub(c.started)
}
