package inbox

import (
	"sync/atomic"
	"time"
)

// How often a waiter polls if no message will tell it that it is its turn. That is so if its
// process has no inbox, or if the holder can't send messages: a foreign client, or a process
// without an inbox. Only the head of the queue polls often, because nobody else can be next.
const (
	// foreignPoll is the pause of the head while a foreign client holds the lock. The first
	// client that finds such a lock free has it, and foreign clients try again after a few
	// milliseconds.
	foreignPoll = time.Millisecond
	// headPoll is the pause of the head otherwise: the lock is kept for the head until it polls.
	headPoll = 20 * time.Millisecond
	// linePoll is the pause of the waiters behind the head.
	linePoll = 100 * time.Millisecond
	// ageShare bounds the pause: it is at least 1/ageShare of the time since the holder last
	// changed. So nobody polls a hundred times per second for a lock that is held for minutes.
	// And a lock that was found late was idle for a small part of the time that it was held.
	ageShare = 64
	// foreignShare is the same behind a foreign client. One that asks again at once leaves the lock
	// free for a tenth of a millisecond, and only a poll in this time finds it so.
	foreignShare = 256
	// pollBudget is how often per second a process polls, for all of its waiters together.
	pollBudget = 1000
)

// ShortClaim is how long the lock is kept for a waiter without an inbox, at least: some of its
// pauses, in case one of its requests is late.
const ShortClaim = 150 * time.Millisecond

// View is what a waiter knows about the lock. It decides how often the waiter polls.
type View struct {
	Foreign   bool      // the holder is a foreign client, or the lock is left free for such clients
	NoMessage bool      // the waiter's process has no inbox, or the holder's has none
	Head      bool      // nobody is ahead of it
	Since     time.Time // since when the holder has been the same
}

// pause returns how long a waiter pauses between two polls; 0: a message will tell it.
func (v View) pause() time.Duration {
	d, share := time.Duration(0), time.Duration(ageShare)
	switch {
	case v.Foreign && v.Head:
		d, share = foreignPoll, foreignShare
	case v.NoMessage && v.Head:
		d = headPoll
	case v.NoMessage:
		d = linePoll
	default:
		return 0
	}
	return max(d, time.Since(v.Since)/share)
}

// Pollers shares pollBudget among the waiters that poll. If they want to poll more often, all of
// them poll less often by the same factor. The zero value is ready.
type Pollers struct{ wanted atomic.Int64 } // polls per second

// Enter adds a waiter and returns its pause between two polls; 0: a message will tell it. The
// caller must call [Pollers.Leave] with the same rate, in polls per second.
func (p *Pollers) Enter(v View) (rate int64, pause time.Duration) {
	if d := v.pause(); d > 0 {
		return p.enter(d)
	}
	return 0, 0
}

// enter adds a waiter that wants a pause of d.
func (p *Pollers) enter(d time.Duration) (rate int64, pause time.Duration) {
	rate = max(int64(time.Second/d), 1)
	if total := p.wanted.Add(rate); total > pollBudget {
		d = d * time.Duration(total) / pollBudget
	}
	return rate, d
}

// Leave removes the waiter that [Pollers.Enter] added.
func (p *Pollers) Leave(rate int64) { p.wanted.Add(-rate) }
