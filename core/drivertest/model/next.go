package model

import "github.com/keyturn/keyturn/core/driver"

// Fits reports whether there is room for a lease for c beside that many holders with that mode
// (M1, M6). Without holders, the mode means nothing.
func Fits(mode driver.Mode, holders int, c driver.Claim) bool {
	switch {
	case holders == 0:
		return true
	case c.Mode != mode || c.Mode == driver.ModeExclusive:
		return false
	default:
		return c.Mode == driver.ModeShared || holders < c.Permits
	}
}

// Next returns the waiters that are admitted next, as indices into queue, which is in order of
// arrival; usually none. holders is the number of leases in force. mode is theirs or, without
// any, that of the last ones. After these, further waiters may be next.
func Next(mode driver.Mode, holders int, queue []driver.Claim) []int {
	var readers, line []int
	for i, c := range queue {
		if c.Mode == driver.ModeShared {
			readers = append(readers, i)
		} else {
			line = append(line, i)
		}
	}
	switch {
	case len(queue) == 0:
		return nil
	case len(line) == 0 && Fits(mode, holders, queue[readers[0]]):
		return readers
	case holders == 0 && mode != driver.ModeShared && len(readers) > 0:
		return readers // M3: after an exclusive lease or the last permit come all readers,
	case holders == 0:
		return line[:1] // and after readers the first of the others
	case mode == driver.ModePermit && len(line) > 0 && line[0] == 0 && Fits(mode, holders, queue[0]):
		return line[:1] // M6, unless a reader came first: it would wait for ever
	}
	return nil
}
