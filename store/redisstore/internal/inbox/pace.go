package inbox

import (
	"sync/atomic"
	"time"
)

// How often a waiter asks if no message will tell it that it is its turn. That is so if its
// process has no inbox, or if the holder can't send messages: a foreign client, or a process
// without an inbox. Only the head of the queue asks often, because nobody else can be next.
const (
	// foreignLook is the pause of the head while a foreign client holds the lock. The first
	// client that finds such a lock free has it, and foreign clients try again after a few
	// milliseconds.
	foreignLook = 2500 * time.Microsecond
	// headLook is the pause of the head otherwise: the lock is kept for the head until it asks.
	headLook = 20 * time.Millisecond
	// lineLook is the pause of the waiters behind the head.
	lineLook = 100 * time.Millisecond
	// ageShare bounds the pause: it is at least 1/ageShare of the time since the holder last
	// changed. So nobody asks a hundred times per second for a lock that is held for minutes.
	// And a lock that was found late was idle for a small part of the time that it was held.
	ageShare = 64
	// lookBudget is how often per second a process asks like this, for all of its waiters
	// together.
	lookBudget = 1000
)

// ShortClaim is how long the lock is kept for a waiter without an inbox, at least: some of its
// pauses, in case one of its requests is late.
const ShortClaim = 150 * time.Millisecond

// Sight is what a waiter knows about the lock. It decides how often the waiter must ask.
type Sight struct {
	Foreign bool      // the holder is a foreign client
	Untold  bool      // the waiter's process has no inbox, or the holder's has none
	Head    bool      // nobody is ahead of it
	Since   time.Time // since when the holder has been the same
}

// pace returns how often a waiter should ask by itself; 0: a message will tell it.
func (s Sight) pace() time.Duration {
	d := time.Duration(0)
	switch {
	case s.Foreign && s.Head:
		d = foreignLook
	case s.Untold && s.Head:
		d = headLook
	case s.Untold:
		d = lineLook
	default:
		return 0
	}
	return max(d, time.Since(s.Since)/ageShare)
}

// Pacer shares lookBudget among the waiters. If they want to ask more often, all of them ask
// less often by the same factor. The zero value is ready.
type Pacer struct{ wanted atomic.Int64 }

// Enter adds a waiter and returns how often it must ask by itself; 0: a message will tell it.
// The caller must call [Pacer.Leave] with the same looks.
func (p *Pacer) Enter(s Sight) (looks int64, every time.Duration) {
	if d := s.pace(); d > 0 {
		return p.enter(d)
	}
	return 0, 0
}

// enter adds a waiter that wants to ask every d.
func (p *Pacer) enter(d time.Duration) (looks int64, every time.Duration) {
	looks = max(int64(time.Second/d), 1)
	if total := p.wanted.Add(looks); total > lookBudget {
		d = d * time.Duration(total) / lookBudget
	}
	return looks, d
}

// Leave removes the waiter that [Pacer.Enter] added.
func (p *Pacer) Leave(looks int64) { p.wanted.Add(-looks) }
