package sim

import "time"

// chance draws numbers that depend only on the seed and on what they are for, such as the third packet
// of the fifth connection. So a fault more or less changes nothing else, and a failing history stays
// wrong while it is made shorter.
type chance uint64

// of returns the chance of one thing of many.
func (c chance) of(what ...uint64) chance {
	for _, w := range what {
		c = (c ^ chance(w)) + 0x9e3779b97f4a7c15
		c = (c ^ c>>30) * 0xbf58476d1ce4e5b9
		c = (c ^ c>>27) * 0x94d049bb133111eb
		c ^= c >> 31
	}
	return c
}

// below returns a number from 0 up to n, without it.
func (c chance) below(n int) int { return int(uint64(c) >> 11 % uint64(n)) }

// between returns a time from least to most.
func (c chance) between(least, most time.Duration) time.Duration {
	return least + time.Duration(uint64(c)>>11%uint64(most-least+1))
}
