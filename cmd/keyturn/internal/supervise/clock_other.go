//go:build unix && !linux

package supervise

import "time"

// monotonic returns the wall clock in nanoseconds: this system has no other one that Go can read and
// that processes share. If it is set back, the guard comes too late.
func monotonic() int64 { return time.Now().UnixNano() }
