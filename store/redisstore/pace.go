package redisstore

import (
	"math/rand/v2"
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
	// shortClaim is how long the lock is kept for a waiter without inbox, at least:
	// some of its looks, should one of them be late.
	shortClaim = 150 * time.Millisecond
)

// pacer shares lookBudget out: when the waiters want more looks than that, all of
// them look less often by the same factor.
type pacer struct{ wanted atomic.Int64 }

// enter adds a waiter that wants to look every d, and returns how often it may. The
// caller owes a leave with the same looks.
func (p *pacer) enter(d time.Duration) (looks int64, every time.Duration) {
	looks = max(int64(time.Second/d), 1)
	if total := p.wanted.Add(looks); total > lookBudget {
		d = d * time.Duration(total) / lookBudget
	}
	return looks, d
}

func (p *pacer) leave(looks int64) { p.wanted.Add(-looks) }

// pace is how often the waiter should look by itself; 0: it will be told.
func (a *asking) pace() time.Duration {
	foreign, quiet, head := a.holder.Foreign(), a.inbox == "" || a.holder.Quiet, a.held.Ahead == 0
	d := time.Duration(0)
	switch {
	case foreign && head:
		d = foreignLook
	case quiet && head:
		d = headLook
	case quiet:
		d = lineLook
	default:
		return 0
	}
	return max(d, time.Since(a.sameSince)/ageShare)
}

// unevenly is d, give or take a half of it, so that processes do not look in step.
func unevenly(d time.Duration) time.Duration { return d/2 + rand.N(d) }
