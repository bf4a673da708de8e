package keystate

import "github.com/keyturn/keyturn/core/driver"

// Phase is what a store remembers of a key besides its members. The zero value is that of a key that nobody
// has held. It is kept when the last lease ends, because the next phase depends on it.
type Phase struct {
	// Mode is the mode of the leases in force or, if there are none, of the last ones.
	Mode driver.Mode
	// Through is the arrival of the last reader that this phase admits. It matters while Mode
	// is shared: a decision that lets in a few readers at a time owes the phase to the others, even
	// if a writer has joined the queue meanwhile.
	Through uint64
}

// shared is the phase that begins when the key becomes shared: by its first reader, or
// by a downgrade (M5). All readers that wait at this moment belong to it.
func (k *Key) shared() Phase {
	p := Phase{Mode: driver.ModeShared}
	if k.readers.back != nil {
		p.Through = k.readers.back.Arrived
	}
	return p
}

// entered is the phase after a request that was admitted has its lease.
func (p Phase) entered(m driver.Mode) Phase {
	if p.Mode == m {
		return p
	}
	return Phase{Mode: m}
}

// fits reports whether a lease can be in force beside so many (M1). Each request for a permit brings its own
// number of permits (M6).
func (p Phase) fits(holders int, mode driver.Mode, permits int) bool {
	switch {
	case holders == 0:
		return true
	case mode != p.Mode:
		return false
	case mode == driver.ModePermit:
		return holders < permits
	default:
		return mode == driver.ModeShared
	}
}

// admits reports whether a request that comes now gets the key. It is behind all waiters, even
// if there is room for it (M2).
func (k *Key) admits(c driver.Claim) bool {
	return k.Waiting() == 0 && k.fits(len(k.holders), c.Mode, c.Permits)
}

// next returns whose turn it is beside so many holders, and the phase of the key once that waiter has its
// lease. nil: it is nobody's turn.
//
// Phases alternate (M3). After an exclusive lease, or the last permit, all readers enter that
// wait at that moment. After the last of these readers, the first of the other requests enters.
func (k *Key) next(holders int) (*Member, Phase) {
	reader, other := k.readers.front, k.others.front
	fits := func(m *Member) bool { return m != nil && k.fits(holders, m.Mode, m.Permits) }
	switch {
	case reader != nil && k.Mode == driver.ModeShared && reader.Arrived <= k.Through:
		return reader, k.Phase // it belongs to the present phase
	case fits(reader) && (other == nil || k.Mode != driver.ModeShared):
		return reader, k.shared()
	case other != nil && holders == 0:
		return other, Phase{Mode: other.Mode}
	case fits(other) && (reader == nil || other.Arrived < reader.Arrived):
		// A permit that came after a reader leaves the phase to end. Otherwise the reader would wait for as
		// long as permits are asked for.
		return other, k.Phase
	}
	return nil, k.Phase
}
