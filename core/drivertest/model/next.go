package model

import "github.com/keyturn/keyturn/core/driver"

// Fits reports whether a lease for c can be in force beside so many others of a mode (M1,
// M6). Without any, the mode means nothing.
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

// Next says who gets in next, of those that wait in order of arrival, as indices; nobody
// most of the time. There are so many leases in force. The mode is theirs or, without
// any, that of the last there were. Somebody else may be next after that.
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
		return readers // M3: what is not shared makes way for all readers,
	case holders == 0:
		return line[:1] // and readers for the first of the others
	case mode == driver.ModePermit && len(line) > 0 && line[0] == 0 && Fits(mode, holders, queue[0]):
		return line[:1] // M6, unless a reader came first: it would wait for ever
	}
	return nil
}
