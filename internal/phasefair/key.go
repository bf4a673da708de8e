package phasefair

import "github.com/keyturn/keyturn/core/driver"

// Phase is what a store remembers of a key besides its holders and waiters. The zero
// value is that of a key that nobody has held. A store keeps it when the last lease
// ends, because the next phase depends on it.
type Phase struct {
	// Mode is the mode of the leases in force or, if there are none, of the last ones.
	Mode driver.Mode
	// Through is the arrival of the last reader that this phase admits. It matters while Mode
	// is shared: a store that admits a few readers at a time owes the phase to the others, even
	// if a writer has joined the queue meanwhile.
	Through uint64
}

// Waiter is a request that waits for a key. The zero value is nobody.
type Waiter struct {
	Claim driver.Claim
	// Arrived is its place in the order of arrival, from 1 on. It need not be dense, and
	// must never begin again while the key's Phase is kept.
	Arrived uint64
}

func (w Waiter) exists() bool { return w.Arrived > 0 }

// Key is one key at a moment, as far as it decides whose turn it is. It leaves out leases that
// are over and waiters that are dead.
type Key struct {
	Phase
	Holders int // leases in force

	Reader     Waiter // the first shared request that waits
	LastReader uint64 // the arrival of the last one
	Other      Waiter // the first of the other requests that wait
}

// Turn says which waiter is next.
type Turn uint8

// The turns.
const (
	Nobody Turn = iota
	Reader      // the first shared request
	Other       // the first of the others
)

// Fits reports whether a lease for c can be in force beside those that are (M1). Each
// request for a permit brings its own number of permits (M6).
func (k Key) Fits(c driver.Claim) bool {
	switch {
	case k.Holders == 0:
		return true
	case c.Mode != k.Mode:
		return false
	case c.Mode == driver.ModePermit:
		return k.Holders < c.Permits
	default:
		return c.Mode == driver.ModeShared
	}
}

// Admits reports whether a request that comes now gets the key. It is behind all waiters, even
// if there is room for it (M2).
func (k Key) Admits(c driver.Claim) bool {
	return !k.Reader.exists() && !k.Other.exists() && k.Fits(c)
}

// Next returns whose turn it is, and the phase of the key once that waiter has its lease. A
// store asks again until it is nobody's turn.
//
// Phases alternate (M3). After an exclusive lease, or the last permit, all readers enter that
// wait at that moment. After the last of these readers, the first of the other requests enters.
func (k Key) Next() (Turn, Phase) {
	readers, others := k.Reader.exists(), k.Other.exists()
	switch {
	case readers && k.owes():
		return Reader, k.Phase
	case readers && k.Fits(k.Reader.Claim) && (!others || k.Mode != driver.ModeShared):
		return Reader, k.Shared()
	case others && k.Holders == 0:
		return Other, Phase{Mode: k.Other.Claim.Mode}
	case others && k.Fits(k.Other.Claim) && !k.readerFirst():
		return Other, k.Phase
	}
	return Nobody, k.Phase
}

// owes reports whether the first reader belongs to the present phase.
func (k Key) owes() bool { return k.Mode == driver.ModeShared && k.Reader.Arrived <= k.Through }

// readerFirst reports whether a reader waits that came before the first of the other requests. A
// permit that came after a reader leaves the phase to end. Otherwise the reader would
// wait for as long as permits are asked for.
func (k Key) readerFirst() bool {
	return k.Reader.exists() && k.Reader.Arrived < k.Other.Arrived
}

// Shared is the phase that begins when the key becomes shared: by its first reader, or
// by a downgrade (M5). All readers that wait at this moment belong to it.
func (k Key) Shared() Phase { return Phase{Mode: driver.ModeShared, Through: k.LastReader} }

// Entered is the phase after a request that was admitted has its lease.
func (p Phase) Entered(m driver.Mode) Phase {
	if p.Mode == m {
		return p
	}
	return Phase{Mode: m}
}
