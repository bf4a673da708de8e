package work

import (
	"time"

	"golang.org/x/sys/unix"
)

// Monotonic is CLOCK_MONOTONIC: the one clock that all processes of a machine
// share and that nobody sets. Go's own times count on it, too, but from a start
// that is each process's own.
func Monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err)
	}
	return ts.Nano()
}

// SharedClock makes what tells a moment of this process's time by that clock. It
// looks at both at once, and again if it was interrupted between them.
func SharedClock() func(time.Time) int64 {
	for {
		before, here, after := Monotonic(), time.Now(), Monotonic()
		if after-before < int64(100*time.Microsecond) {
			// before is not later than here, so no deadline is taken for a later one.
			return func(t time.Time) int64 { return before + int64(t.Sub(here)) }
		}
	}
}
