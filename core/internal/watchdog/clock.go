package watchdog

import (
	"math"
	"time"
)

// heartbeat is how often the watchdog looks at the clocks while it has leases. Timers stand
// still in a suspended machine, and go on afterwards as if nothing had happened.
const heartbeat = time.Second

// suspendNoticed is the least drift between two looks that counts as a suspension. It is more
// than the gradual correction of a clock can cause.
const suspendNoticed = 100 * time.Millisecond

// clock notices that the machine slept: see "Suspended machines" in the package's comment.
type clock struct {
	started time.Time
	wall    func(time.Time) time.Time // as in Config
}

// moment is a time as leases keep it: how long after the watchdog was made, by the monotonic clock.
// It is a third of a time.Time, and there may be a hundred thousand leases.
type moment time.Duration

func (c *clock) moment(t time.Time) moment { return moment(t.Sub(c.started)) }

// time is the moment m by the wall clock that shows now.
func (c *clock) time(m moment, now time.Time) time.Time {
	return now.Add(time.Duration(m - c.moment(now)))
}

// add returns the moment that much later, or the last one if there is no such: a bound of the
// caller's may be as long as a Duration can be.
func (m moment) add(d time.Duration) moment {
	if d > 0 && m > math.MaxInt64-moment(d) {
		return math.MaxInt64
	}
	return m + moment(d)
}

// drift is how far the wall clock has run ahead of the monotonic one, from the start to t.
func (c *clock) drift(t time.Time) time.Duration {
	wall := t.Round(0) // Round drops the monotonic reading
	if c.wall != nil {
		wall = c.wall(wall)
	}
	return wall.Sub(c.started.Round(0)) - t.Sub(c.started)
}
