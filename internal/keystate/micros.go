package keystate

import "time"

// ToMicros is a duration in microseconds, rounded up. It adds nothing to d, which may be the longest duration.
func ToMicros(d time.Duration) int64 {
	m := d.Microseconds()
	if d > FromMicros(m) {
		m++
	}
	return m
}

// FromMicros is a duration of so many microseconds.
func FromMicros(m int64) time.Duration { return time.Duration(m) * time.Microsecond }
