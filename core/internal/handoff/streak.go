package handoff

import "time"

// A streak is bounded so that other processes get their turn. If the store says that
// one of them waits, the streak ends with the callers that stood in line when the grant
// came. Otherwise it ends after a while, because another process may have come by then.
const (
	// mostWhileContended is the number of hand-offs at most while another process waits.
	mostWhileContended = 64
	// MaxTime is for how long another process that comes meanwhile may have to wait for
	// the end of a streak. It is also how long a caller waits for a hand-off before it
	// joins the store's queue.
	MaxTime = 100 * time.Millisecond
	// trustedFor is for how long after its last word the store is believed to have the
	// lease still. It may have lost it (DEL, FLUSHALL, a failover) and granted the key to
	// another process. The next caller would work beside that one, under a smaller token
	// than one that was given before. Work of a millisecond or less asks once in many
	// hand-offs, and longer work does not notice a round trip.
	trustedFor = 10 * time.Millisecond
)

// Decision is what becomes of a lease that its holder is done with.
type Decision int

const (
	// Release: the lease goes back to the store.
	Release Decision = iota
	// Confirm: the lease may be handed on once the store has confirmed it.
	Confirm
	// HandOn: the lease goes to the next caller.
	HandOn
)

// Streak is the time for which a lease goes from caller to caller. The zero value is
// idle. It is not safe for concurrent use.
type Streak struct {
	state state
	owner string // of the grant
	trace string // of the caller that has it now
	hands uint64 // of the present holder's grant
	left  int    // hand-offs
	until time.Time
	timer *time.Timer // opens the streak while somebody waits; nil: nobody did
}

type state uint8

const (
	idle    state = iota // there is no lease to hand on
	running              // callers wait for a hand-off and do not ask the store
	open                 // the present holder is the last; who is next asks the store
)

// Begin starts a streak with a grant that just came, for the caller with that trace.
// Behind is how many others stand in line. It returns the moment from which the grant
// counts, or false if the grant can't be handed on.
func (s *Streak) Begin(g Grant, trace string, behind int) (from time.Time, begun bool) {
	left := MaxHands
	if g.Contended {
		left = min(left, mostWhileContended, behind)
	}
	if !g.Heritable || left <= 0 {
		return time.Time{}, false
	}
	from = g.Since
	if g.Term > 0 {
		from = time.Now() // Since is when the caller asked, which may be long ago
	}
	*s = Streak{state: running, owner: g.Owner, trace: trace, left: left, until: from.Add(min(MaxTime, g.PresentTerm()/3))}
	return from, true
}

// Idle reports whether there is no lease to hand on.
func (s *Streak) Idle() bool { return s.state == idle }

// Running reports whether callers wait for a hand-off instead of asking the store.
func (s *Streak) Running() bool { return s.state == running }

// Outlasted reports whether the streak's time is over, so that nothing is handed on.
func (s *Streak) Outlasted(now time.Time) bool { return now.After(s.until) }

// Owner is the owner of the lease in the streak, and the trace of its present holder.
func (s *Streak) Owner() (owner, trace string) { return s.owner, s.trace }

// Holds reports whether g is the grant of the present holder.
func (s *Streak) Holds(g Grant) bool {
	return s.state != idle && s.owner == g.Owner && s.hands == g.Hands
}

// Decide says what becomes of g, whose holder is done with it, if the next caller wants
// a lease with this TTL; zero: it takes none.
func (s *Streak) Decide(g Grant, ttl time.Duration, now time.Time) Decision {
	switch {
	case s.state != running, !s.Holds(g), !suits(ttl, g.TTL), s.Outlasted(now), now.Sub(g.Since) > g.heritableFor():
		return Release
	case now.Sub(g.Heard) > trustedFor:
		return Confirm
	}
	return HandOn
}

// suits reports whether a lease with the TTL has will do for a caller that asked for
// want. It can't choose, so the two have to be about the same.
func suits(want, has time.Duration) bool { return want < 2*has && has < 2*want }

// Next hands g on to the caller with that trace, and returns the grant that it has.
func (s *Streak) Next(g Grant, trace string) Grant {
	g.Hands++
	s.hands, s.trace = g.Hands, trace
	s.left--
	if s.left == 0 {
		s.state = open
	}
	return g
}

// Expire opens the streak of owner, whose time is over, and reports whether it did.
func (s *Streak) Expire(owner string) bool {
	if s.state == idle || s.owner != owner {
		return false
	}
	s.state = open
	return true
}

// Timed reports whether [Streak.ExpireLater] was called.
func (s *Streak) Timed() bool { return s.timer != nil }

// ExpireLater has f called, on a goroutine of its own, when the streak's time is over.
// The end of the streak calls it off, if it has not begun.
func (s *Streak) ExpireLater(f func()) { s.timer = time.AfterFunc(time.Until(s.until), f) }

// End ends the streak: its lease is over.
func (s *Streak) End() {
	if s.timer != nil {
		s.timer.Stop()
	}
	*s = Streak{}
}
