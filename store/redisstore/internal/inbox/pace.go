package inbox

import (
	"sync/atomic"
	"time"
)

// How often a waiter looks that nobody will tell of its turn: because its process has
// no inbox, or because the holder can't send messages: a foreign client, or a process
// without inbox. Only the head of the queue is quick. Nobody else can be next.
const (
	// foreignLook: whoever finds a foreign lock free first has it, and the other
	// clients try again after a few milliseconds.
	foreignLook = 2500 * time.Microsecond
	// headLook: the lock is kept for the head until it comes.
	headLook = 20 * time.Millisecond
	// lineLook is for those behind the head.
	lineLook = 100 * time.Millisecond
	// ageShare bounds the pace by how long the holder has been the same: a lock that
	// is held for minutes is not looked at a hundred times per second, and one that
	// was found late was idle for a small part of the time that it was held.
	ageShare = 64
	// lookBudget is how many of these looks a process makes per second, for all of
	// its waiters together.
	lookBudget = 1000
)

// ShortClaim is how long the lock is kept for a waiter without inbox, at least:
// some of its looks, should one of them be late.
const ShortClaim = 150 * time.Millisecond

// Sight is what a waiter knows that decides how often it must look.
type Sight struct {
	Foreign bool      // the holder is a foreign client
	Untold  bool      // the waiter has no inbox, or its holder's process has none
	Head    bool      // nobody is ahead of it
	Since   time.Time // since when the holder has been the same
}

// pace is how often a waiter should look by itself; 0: it will be told.
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

// Pacer shares lookBudget out: when the waiters want more looks than that, all of
// them look less often by the same factor. The zero value is ready.
type Pacer struct{ wanted atomic.Int64 }

// Enter adds a waiter, and returns how often it must look by itself; 0: it will be told.
// The caller owes a Leave with the same looks.
func (p *Pacer) Enter(s Sight) (looks int64, every time.Duration) {
	if d := s.pace(); d > 0 {
		return p.enter(d)
	}
	return 0, 0
}

// enter adds a waiter that wants to look every d.
func (p *Pacer) enter(d time.Duration) (looks int64, every time.Duration) {
	looks = max(int64(time.Second/d), 1)
	if total := p.wanted.Add(looks); total > lookBudget {
		d = d * time.Duration(total) / lookBudget
	}
	return looks, d
}

// Leave ends what Enter began.
func (p *Pacer) Leave(looks int64) { p.wanted.Add(-looks) }
