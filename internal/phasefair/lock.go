package phasefair

import (
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// MostPerStep is how many waiters a store admits with one step, if the cost of a step to its
// backend grows with their number.
const MostPerStep = 64

// Lock is a key as a store reads it from its backend: all holders and all waiters. An owner
// that holds the key does not wait for it as well.
type Lock struct {
	Phase   Phase
	Holders []Holder
	Waiters []Queued // in order of arrival
}

// Holder is an owner with a lease.
type Holder struct {
	Owner string
	// Ends is when the lease is over. Zero: not as long as the backend shows it.
	Ends time.Time
}

// Queued is an owner that waits.
type Queued struct {
	Waiter
	Owner string
	// Ends is when the waiter counts as dead. Zero: not as long as the backend shows it.
	Ends time.Time
}

// Step is one decision about a key.
type Step struct {
	// Granted lists the waiters that are admitted, as indices, in the order of their tokens.
	Granted []int
	// Phase has to be stored together with the grants, in one atomic step.
	Phase Phase
	// More reports that others enter with the next step. Readers still belong to the phase,
	// waiters that come meanwhile; permits keep their place in the queue.
	More bool
}

// Step says whose turn it is at now, for at most that many waiters; most must be 1 or more. A
// store takes a step after everything that can make room: a release, forced or not, a
// downgrade, the end of a lease, and the end of a wait.
func (l Lock) Step(now time.Time, most int) Step {
	holders, readers, others := l.inForce(now)
	step := Step{Phase: l.Phase}
	for {
		turn, phase := l.key(step.Phase, holders, readers, others).Next()
		if turn == Nobody {
			return step
		}
		if len(step.Granted) >= most {
			step.More = true
			return step
		}
		next := &readers
		if turn == Other {
			next = &others
		}
		step.Granted, *next = append(step.Granted, (*next)[0]), (*next)[1:]
		step.Phase = phase
		holders++
	}
}

// Admits reports whether a request that comes at now gets c.
func (l Lock) Admits(c driver.Claim, now time.Time) bool {
	holders, readers, others := l.inForce(now)
	return l.key(l.Phase, holders, readers, others).Admits(c)
}

// Downgraded is the phase after the only holder has turned its exclusive lease into a shared
// one (M5). The readers enter with the next step.
func (l Lock) Downgraded(now time.Time) Phase {
	holders, readers, others := l.inForce(now)
	return l.key(l.Phase, holders, readers, others).Shared()
}

// Reach says how far a set gets at now (S1): how many of its claims, from the first, the owner
// has or gets. It takes these, waits at the next one and holds nothing behind that. locks has
// the lock of each claim, in the same order.
func Reach(owner string, claims []driver.Claim, locks []Lock, now time.Time) int {
	for i, c := range claims {
		if !locks[i].holds(owner, now) && !locks[i].Admits(c, now) {
			return i
		}
	}
	return len(claims)
}

func (l Lock) holds(owner string, now time.Time) bool {
	for _, h := range l.Holders {
		if h.Owner == owner && !over(h.Ends, now) {
			return true
		}
	}
	return false
}

// inForce leaves out leases that are over and waiters that are dead. The waiters are indices.
func (l Lock) inForce(now time.Time) (holders int, readers, others []int) {
	for _, h := range l.Holders {
		if !over(h.Ends, now) {
			holders++
		}
	}
	for i, w := range l.Waiters {
		switch {
		case over(w.Ends, now):
		case w.Claim.Mode == driver.ModeShared:
			readers = append(readers, i)
		default:
			others = append(others, i)
		}
	}
	return holders, readers, others
}

func over(ends, now time.Time) bool { return !ends.IsZero() && !now.Before(ends) }

// key is the lock with these holders and waiters left.
func (l Lock) key(p Phase, holders int, readers, others []int) Key {
	k := Key{Phase: p, Holders: holders}
	if len(readers) > 0 {
		k.Reader, k.LastReader = l.Waiters[readers[0]].Waiter, l.Waiters[readers[len(readers)-1]].Arrived
	}
	if len(others) > 0 {
		k.Other = l.Waiters[others[0]].Waiter
	}
	return k
}
