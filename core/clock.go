package core

import "time"

// clock notices that the machine slept. Deadlines go by the monotonic clock,
// which on most systems stands still while a laptop or a virtual machine is
// suspended; the backend's clock does not. The wall clock is the witness: where
// it ran ahead of the monotonic one, time has passed that the deadlines missed.
//
// A wall clock set forward by hand looks the same and costs leases that were
// still good: the error is on the safe side. One set back is ignored.
type clock struct {
	started time.Time
	wall    func(time.Time) time.Time // its wall clock reading; replaced in tests
}

func newClock() clock {
	return clock{
		started: time.Now(),
		wall:    func(t time.Time) time.Time { return t.Round(0) },
	}
}

// drift is how far the wall clock had run ahead, since the start, at t.
func (c *clock) drift(t time.Time) time.Duration {
	return c.wall(t).Sub(c.started.Round(0)) - t.Sub(c.started)
}
