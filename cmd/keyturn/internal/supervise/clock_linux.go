package supervise

import "golang.org/x/sys/unix"

// monotonic returns a time in nanoseconds that all processes of this machine share, and that nobody
// sets. It goes on while the machine sleeps.
func monotonic() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic(err) // every kernel that Go runs on has it
	}
	return t.Nano()
}
