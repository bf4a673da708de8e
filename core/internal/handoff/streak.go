package handoff

import "time"

// A streak is bounded so that other processes get their turn.
const (
	// mostWhileContended is the maximum number of hand-offs while another process waits.
	mostWhileContended = 64
	// MaxTime is how long a streak lasts at most, because another process may have come by then. It
	// is also how long a caller waits for a hand-off before it joins the store's queue.
	MaxTime = 100 * time.Millisecond
	// trustedFor is how long after its last answer the store is assumed to still have the
	// lease: see "Is the lease still there" in the package's comment.
	trustedFor = 10 * time.Millisecond
)

// Decision says what happens to a lease that its holder no longer needs.
type Decision int

const (
	// Release: the lease goes back to the store.
	Release Decision = iota
	// Confirm: the lease may be handed on once the store has confirmed it.
	Confirm
	// HandOn: the lease goes to the next caller.
	HandOn
)

// Streak is the time during which a lease goes from caller to caller. The zero value is idle.
// It is not safe for concurrent use.
type Streak struct {
	state    state
	owner    string // the owner of the grant
	trace    string // the trace of the present holder
	handedOn uint64 // the hand-off count of the present holder's grant
	left     int    // hand-offs that are left
	until    time.Time
	timer    *time.Timer // closes the streak when its time is over; nil: nobody has waited
}

type state uint8

const (
	idle    state = iota // there is no lease to hand on
	running              // callers wait for a hand-off and do not ask the store
	closing              // the present holder is the last of the streak; the next caller asks the store
)

// Begin starts a streak with a grant that came at that moment, for the caller with that trace.
// behind is the number of other callers in line. It returns the moment from which the streak's
// time counts, or false if the grant cannot be handed on.
func (s *Streak) Begin(g Grant, came time.Time, trace string, behind int) (from time.Time, begun bool) {
	left := int(min(g.HandOffs-g.HandedOn, MaxHandOffs)) // the tokens that they need are this grant's alone
	if g.Contended {
		left = min(left, mostWhileContended, behind)
	}
	if !g.Heritable || left <= 0 {
		return time.Time{}, false
	}
	from = g.Since
	if g.Term > 0 || g.HandedOn > 0 {
		from = came // Since may be long ago: when a waiter asked, or before the lease lingered
	}
	*s = Streak{state: running, owner: g.Owner, trace: trace, handedOn: g.HandedOn, left: left, until: from.Add(min(MaxTime, g.presentTerm()/3))}
	return from, true
}

// Idle reports whether there is no lease to hand on.
func (s *Streak) Idle() bool { return s.state == idle }

// Running reports whether callers wait for a hand-off instead of asking the store.
func (s *Streak) Running() bool { return s.state == running }

// Outlasted reports whether the streak's time is over. Then nothing more is handed on.
func (s *Streak) Outlasted(now time.Time) bool { return now.After(s.until) }

// Owner returns the owner of the lease in the streak, and the trace of its present holder.
func (s *Streak) Owner() (owner, trace string) { return s.owner, s.trace }

// Holds reports whether g is the grant of the present holder.
func (s *Streak) Holds(g Grant) bool {
	return s.state != idle && s.owner == g.Owner && s.handedOn == g.HandedOn
}

// Decide says what happens to g, which its holder no longer needs. ttl is the TTL that the next
// caller wants; 0: the next caller takes no lease.
func (s *Streak) Decide(g Grant, ttl time.Duration, now time.Time) Decision {
	switch {
	case s.state != running, !s.Holds(g), !suits(ttl, g.TTL), s.Outlasted(now), now.Sub(g.Since) > g.heritableFor():
		return Release
	case now.Sub(g.Heard) > trustedFor:
		return Confirm
	}
	return HandOn
}

// suits reports whether a lease with the TTL has is good enough for a caller that asked for
// want. That caller cannot choose, so the two must differ by less than a factor of two.
func suits(want, has time.Duration) bool { return want < 2*has && has < 2*want }

// Next hands g on to the caller with that trace, and returns that caller's grant.
func (s *Streak) Next(g Grant, trace string) Grant {
	g.HandedOn++
	s.handedOn, s.trace = g.HandedOn, trace
	g.Lingered = false
	s.left--
	if s.left == 0 {
		s.state = closing
	}
	return g
}

// Expire makes the present holder of owner's streak its last, because its time is over. It
// reports whether it did.
func (s *Streak) Expire(owner string) bool {
	if s.state == idle || s.owner != owner {
		return false
	}
	s.state = closing
	return true
}

// Timed reports whether [Streak.ExpireLater] was called.
func (s *Streak) Timed() bool { return s.timer != nil }

// ExpireLater makes a timer call f, on a goroutine of its own, when the streak's time is over.
// The end of the streak stops the timer, if it has not fired.
func (s *Streak) ExpireLater(f func()) { s.timer = time.AfterFunc(time.Until(s.until), f) }

// End ends the streak, because its lease has ended.
func (s *Streak) End() {
	if s.timer != nil {
		s.timer.Stop()
	}
	*s = Streak{}
}
